package kubeapi

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/lazy"
)

// Meta is what every object has.
type Meta struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Labels          map[string]string `json:"labels"`
	Annotations     map[string]string `json:"annotations"`
	Deleted         *time.Time        `json:"deletionTimestamp"`
}

// List is a list of objects.
type List[T any] struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []T `json:"items"`
}

// Pod is what tare reads of a pod (k8s.io/api/core/v1, types.go).
type Pod struct {
	Metadata Meta      `json:"metadata"`
	Spec     PodSpec   `json:"spec"`
	Status   PodStatus `json:"status"`
}

// PodSpec is what was asked for.
type PodSpec struct {
	NodeName       string      `json:"nodeName"`
	Containers     []Container `json:"containers"`
	InitContainers []Container `json:"initContainers"`
	// Resources bound the whole pod (since Kubernetes 1.34 by default).
	Resources Resources `json:"resources"`
}

// Container is one of a pod.
type Container struct {
	Name          string    `json:"name"`
	Resources     Resources `json:"resources"`
	RestartPolicy string    `json:"restartPolicy"` // Always: an init container that is a sidecar
	Env           []EnvVar  `json:"env"`
}

// EnvVar is a variable with a value of its own.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Resources are quantities, such as 256Mi.
type Resources struct {
	Limits   map[string]string `json:"limits,omitempty"`
	Requests map[string]string `json:"requests,omitempty"`
}

// PodStatus is how it went.
type PodStatus struct {
	Phase          string            `json:"phase"`
	Reason         string            `json:"reason"` // Evicted
	Message        string            `json:"message"`
	StartTime      *time.Time        `json:"startTime"`
	Containers     []ContainerStatus `json:"containerStatuses"`
	InitContainers []ContainerStatus `json:"initContainerStatuses"`
	Ephemeral      []ContainerStatus `json:"ephemeralContainerStatuses"`
	Conditions     []Condition       `json:"conditions"`
}

// Condition is one of a pod, such as DisruptionTarget.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// ContainerStatus is how a container went.
type ContainerStatus struct {
	Name         string `json:"name"`
	ContainerID  string `json:"containerID"` // containerd://ID
	RestartCount int    `json:"restartCount"`
	State        State  `json:"state"`
	LastState    State  `json:"lastState"`
}

// State is one of a container; one of its parts is set.
type State struct {
	Running *struct {
		StartedAt time.Time `json:"startedAt"`
	} `json:"running"`
	Waiting *struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"waiting"`
	Terminated *Terminated `json:"terminated"`
}

// broken are what helps where a container waits for reasons that do not pass by themselves
// (Kubernetes: pkg/kubelet/images/types.go, pkg/kubelet/kuberuntime).
var broken = map[string]string{
	"ImagePullBackOff": "check the image's name and the node's rights to pull it", "InvalidImageName": "check the image's name",
	"ErrImageNeverPull": "the node does not have the image, and may not pull it", "CreateContainerConfigError": "check what the pod refers to",
	"CreateContainerError": "check the container's settings", "RunContainerError": "check the container's settings", "CrashLoopBackOff": "tare's image does not start there",
}

// Broken says that a container which waits for a reason will not run, and what helps.
func Broken(reason string) (help string, ok bool) {
	help, ok = broken[reason]
	return help, ok
}

// Terminated is an end of a container.
type Terminated struct {
	ExitCode    int       `json:"exitCode"`
	Signal      int       `json:"signal"`
	Reason      string    `json:"reason"` // OOMKilled, Error, Completed
	Message     string    `json:"message"`
	StartedAt   time.Time `json:"startedAt"`
	FinishedAt  time.Time `json:"finishedAt"`
	ContainerID string    `json:"containerID"`
}

// EventObject is an event of the cluster (core/v1 Event).
type EventObject struct {
	Metadata Meta   `json:"metadata"`
	Type     string `json:"type"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
	Count    int    `json:"count"`
	Involved struct {
		Kind, Name, UID, FieldPath string
	} `json:"involvedObject"`
	First     *time.Time `json:"firstTimestamp"`
	Last      *time.Time `json:"lastTimestamp"`
	EventTime *time.Time `json:"eventTime"`
}

// At is when it happened last; zero where it does not say.
func (e *EventObject) At() time.Time {
	for _, t := range []*time.Time{e.Last, e.EventTime, e.First} {
		if t != nil && !t.IsZero() {
			return *t
		}
	}
	return time.Time{}
}

// runtimeID is a container's id with its runtime: TYPE://ID.
var runtimeID = lazy.Regexp(`^[a-z0-9.+-]{1,32}://([0-9a-f]{64})$`)

// ID is the id of a container without its runtime; "" where it has none yet.
func ID(containerID string) string {
	m := runtimeID().FindStringSubmatch(containerID)
	if m == nil {
		return ""
	}
	return m[1]
}

// AllStatuses are those of a pod's containers of all kinds.
func (p *Pod) AllStatuses() []ContainerStatus {
	var all []ContainerStatus
	all = append(all, p.Status.InitContainers...)
	all = append(all, p.Status.Containers...)
	return append(all, p.Status.Ephemeral...)
}

// name is a DNS subdomain (RFC 1123), as names of most objects are.
var name = lazy.Regexp(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// ValidName says that a text can be the name of an object.
func ValidName(s string) bool { return name().MatchString(s) && !strings.Contains(s, "..") }

// PodPath is the path of a pod, of all pods of a namespace where name is "", or of all
// namespaces where that is "" too.
func PodPath(namespace, name string) string { return Path("/api/v1", namespace, "pods", name) }

// EventPath is that of the events of a namespace.
func EventPath(namespace string) string { return Path("/api/v1", namespace, "events", "") }

// Path is the path of an object of a resource of an API, such as /apis/batch/v1, or of all
// of them where name is "".
func Path(api, namespace, resource, name string) string {
	p := api
	if namespace != "" {
		p += "/namespaces/" + url.PathEscape(namespace)
	}
	p += "/" + resource
	if name != "" {
		p += "/" + url.PathEscape(name)
	}
	return p
}

// Workload is a kind of object that makes pods from a template, or a pod.
type Workload struct {
	Kind, APIVersion, Resource string
	// Template is where its pod template lies.
	Template []string
}

// workloads by the names that kubectl knows them by.
func workloads() []struct {
	names []string
	Workload
} {
	template := []string{"spec", "template"}
	type row = struct {
		names []string
		Workload
	}
	return []row{
		{[]string{"deployment", "deployments", "deploy"}, Workload{"Deployment", "apps/v1", "deployments", template}},
		{[]string{"statefulset", "statefulsets", "sts"}, Workload{"StatefulSet", "apps/v1", "statefulsets", template}},
		{[]string{"daemonset", "daemonsets", "ds"}, Workload{"DaemonSet", "apps/v1", "daemonsets", template}},
		{[]string{"cronjob", "cronjobs", "cj"}, Workload{"CronJob", "batch/v1", "cronjobs", []string{"spec", "jobTemplate", "spec", "template"}}},
		{[]string{"replicaset", "replicasets", "rs"}, Workload{"ReplicaSet", "apps/v1", "replicasets", template}},
		{[]string{"job", "jobs"}, Workload{"Job", "batch/v1", "jobs", template}},
		{[]string{"pod", "pods", "po"}, Workload{"Pod", "v1", "pods", nil}},
	}
}

// ParseWorkload reads KIND/NAME, such as deployment/shop.
func ParseWorkload(text string) (Workload, string, error) {
	kind, name, ok := strings.Cut(text, "/")
	if !ok || !ValidName(name) {
		return Workload{}, "", fmt.Errorf("%.100q is no KIND/NAME, such as deployment/shop", text)
	}
	for _, w := range workloads() {
		for _, n := range w.names {
			if n == strings.ToLower(kind) {
				return w.Workload, name, nil
			}
		}
	}
	return Workload{}, "", fmt.Errorf("%.100q: tare knows deployment, statefulset, daemonset, cronjob, replicaset, job and pod", kind)
}

// Path is the path of the workload of a name.
func (w Workload) Path(namespace, name string) string {
	api := "/apis/"
	if !strings.Contains(w.APIVersion, "/") {
		api = "/api/" // of the core
	}
	return Path(api+w.APIVersion, namespace, w.Resource, name)
}

// Changes says that a change of its pod template reaches pods: others have the template
// of what made them, or one that the API server lets nobody change.
func (w Workload) Changes() bool {
	return slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "CronJob"}, w.Kind)
}

// quantity is a number with a suffix (k8s.io/apimachinery/pkg/api/resource, quantity.go).
var quantity = lazy.Regexp(`^([0-9]{1,19}(?:\.[0-9]{1,9})?)(|m|[kMGT]|[KMGT]i)$`)

// ParseBytes reads a quantity of memory, such as 256Mi or 1G. It reports false for what
// is none, or is beyond 2^60.
func ParseBytes(s string) (int64, bool) {
	m := quantity().FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, false
	}
	n *= map[string]float64{"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}[m[2]]
	return int64(n), n <= 1<<60
}
