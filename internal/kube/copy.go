package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/linux"
)

// Copy is a pod template of a workload that runs, made harmless as far as that can be
// seen: nothing of its labels, annotations, service account and probes is left.
type Copy struct {
	Spec corev1.PodSpec
	// Reaches are the hosts that its environment names, and the secrets that it is given,
	// which may name others and are not looked at, as "secret/NAME".
	Reaches []string
	// Missing are config maps and secrets that are not in the namespace of the trials.
	Missing []string
	// Left are parts that are not copied.
	Left []string
}

// CopyOf copies the pod template of a workload, as "deployment/shop", in the namespace of
// from, for trials in that of in. Container names the application's; "" is the only
// one, or the first.
func CopyOf(ctx context.Context, from *kubeapi.Client, workload, container string, in *kubeapi.Client) (*Copy, error) {
	w, name, err := kubeapi.ParseWorkload(workload)
	if err != nil {
		return nil, err
	}
	template, err := templateOf(ctx, from, w, name)
	if err != nil {
		return nil, fmt.Errorf("%s in namespace %s: %w", workload, from.Namespace, err)
	}
	out := &Copy{}
	if err := out.take(template.Spec, container); err != nil {
		return nil, fmt.Errorf("%s: %w", workload, err)
	}
	return out, out.look(ctx, from, in)
}

// templateOf is the pod template of a workload; a pod is its own.
func templateOf(ctx context.Context, c *kubeapi.Client, w kubeapi.Workload, name string) (template corev1.PodTemplateSpec, err error) {
	var object json.RawMessage
	if err := c.Get(ctx, w.Path(c.Namespace, name), nil, &object); err != nil {
		return template, err
	}
	for _, key := range w.Template {
		var inner map[string]json.RawMessage
		if err := json.Unmarshal(object, &inner); err != nil {
			return template, err
		}
		object = inner[key]
	}
	return template, json.Unmarshal(object, &template)
}

// take takes what can be copied of a pod.
func (c *Copy) take(spec corev1.PodSpec, container string) error {
	if spec.HostNetwork || spec.HostPID || spec.HostIPC {
		return errors.New("it shares the node's network, processes or memory: a copy would be in the way of the original")
	}
	at := 0
	if container != "" {
		at = slices.IndexFunc(spec.Containers, func(x corev1.Container) bool { return x.Name == container })
	}
	if at < 0 || at >= len(spec.Containers) {
		return fmt.Errorf("it has no container %.100q", container)
	}
	app := *spec.Containers[at].DeepCopy()
	for i, other := range spec.Containers {
		if i != at {
			c.Left = append(c.Left, "container "+other.Name)
		}
	}
	for _, init := range spec.InitContainers {
		c.Left = append(c.Left, "init container "+init.Name)
	}
	app.Ports = nil // of the node, they would be the original's
	c.Spec = corev1.PodSpec{NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations, Affinity: spec.Affinity, ImagePullSecrets: spec.ImagePullSecrets,
		SecurityContext: spec.SecurityContext, RuntimeClassName: spec.RuntimeClassName, DNSPolicy: spec.DNSPolicy, DNSConfig: spec.DNSConfig, HostAliases: spec.HostAliases}
	if c.Spec.Affinity != nil { // what is kept apart from pods of the original would be kept from nothing
		c.Spec.Affinity = &corev1.Affinity{NodeAffinity: spec.Affinity.NodeAffinity}
	}
	var mounts []corev1.VolumeMount
	for _, m := range app.VolumeMounts {
		i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			continue // of a service account
		}
		v := spec.Volumes[i]
		switch {
		case strings.HasPrefix(m.MountPath, "/var/run/secrets/kubernetes.io/serviceaccount"):
			continue
		case v.EmptyDir != nil || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil:
			mounts = append(mounts, m)
			if !slices.ContainsFunc(c.Spec.Volumes, func(x corev1.Volume) bool { return x.Name == v.Name }) {
				c.Spec.Volumes = append(c.Spec.Volumes, v)
			}
		default:
			return fmt.Errorf("volume %s at %s would be shared with the original: fit a workload without it", v.Name, m.MountPath)
		}
	}
	app.VolumeMounts = mounts
	c.Spec.Containers = []corev1.Container{app}
	return nil
}

// look finds what the copy refers to, and what it may reach.
func (c *Copy) look(ctx context.Context, from, in *kubeapi.Client) error {
	app := c.Spec.Containers[0]
	reaches, configs := map[string]bool{}, map[string]bool{}
	optional := map[string]bool{}
	refer := func(kind, name string, may *bool) {
		configs[kind+"/"+name] = true
		if may != nil && *may {
			optional[kind+"/"+name] = true
		}
	}
	for _, e := range app.Env {
		for _, h := range hostsIn(e.Name, e.Value) {
			reaches[h] = true
		}
		if v := e.ValueFrom; v != nil && v.SecretKeyRef != nil {
			refer("secret", v.SecretKeyRef.Name, v.SecretKeyRef.Optional)
		} else if v != nil && v.ConfigMapKeyRef != nil {
			refer("configmap", v.ConfigMapKeyRef.Name, v.ConfigMapKeyRef.Optional)
		}
	}
	for _, e := range app.EnvFrom {
		if e.SecretRef != nil {
			refer("secret", e.SecretRef.Name, e.SecretRef.Optional)
		} else if e.ConfigMapRef != nil {
			refer("configmap", e.ConfigMapRef.Name, e.ConfigMapRef.Optional)
		}
	}
	for _, v := range c.Spec.Volumes {
		if v.Secret != nil {
			refer("secret", v.Secret.SecretName, v.Secret.Optional)
		} else if v.ConfigMap != nil {
			refer("configmap", v.ConfigMap.Name, v.ConfigMap.Optional)
		}
	}
	for _, s := range c.Spec.ImagePullSecrets {
		configs["secret/"+s.Name] = true
	}
	for _, arg := range slices.Concat(app.Command, app.Args) {
		for _, h := range hostsIn("", arg) {
			reaches[h] = true
		}
	}
	for _, ref := range slices.Sorted(maps.Keys(configs)) {
		kind, name, _ := strings.Cut(ref, "/")
		if kind == "secret" {
			if !slices.ContainsFunc(c.Spec.ImagePullSecrets, func(s corev1.LocalObjectReference) bool { return s.Name == name }) {
				reaches[ref] = true
			}
		} else if err := hostsOfConfig(ctx, from, name, reaches); err != nil {
			return err
		}
		if in.Namespace == from.Namespace || optional[ref] {
			continue
		}
		there, err := has(ctx, in, kind, name)
		if err != nil {
			return err
		}
		if !there {
			c.Missing = append(c.Missing, ref)
		}
	}
	c.Reaches = slices.Sorted(maps.Keys(reaches))
	return nil
}

func hostsOfConfig(ctx context.Context, c *kubeapi.Client, name string, into map[string]bool) error {
	var config corev1.ConfigMap
	err := c.Get(ctx, kubeapi.Path("/api/v1", c.Namespace, "configmaps", name), nil, &config)
	if err != nil {
		return fmt.Errorf("config map %s in namespace %s: %w", name, c.Namespace, err)
	}
	for key, value := range config.Data {
		for _, h := range hostsIn(key, value) {
			into[h] = true
		}
	}
	return nil
}

// has asks whether there is a config map or secret, without reading what is in it.
func has(ctx context.Context, c *kubeapi.Client, kind, name string) (bool, error) {
	query := map[string][]string{"fieldSelector": {"metadata.name=" + name}}
	var found struct {
		Items []struct{} `json:"items"`
	}
	text, err := c.Do(ctx, kubeapi.Request{Method: http.MethodGet, Path: kubeapi.Path("/api/v1", c.Namespace, kind+"s", ""), Query: query,
		Header: http.Header{"Accept": {"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}}})
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err != nil {
		return false, fmt.Errorf("%ss in namespace %s: %w", kind, c.Namespace, err)
	}
	return len(found.Items) > 0, nil
}

var (
	// hostOfURL is what stands behind "//" in a URL, a list of hosts too, such as
	// jdbc:postgresql://db1,db2:5432/shop.
	hostOfURL = regexp.MustCompile(`//(?:[^/@\s"']*@)?([A-Za-z0-9._\-,:\[\]]+)`)
	// hostAndPort is such as kafka-1:9092.
	hostAndPort = regexp.MustCompile(`(?:^|[\s,;="'@(])([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?):[0-9]{2,5}\b`)
	// named are variables the value of which is a host, or a list of them.
	named    = regexp.MustCompile(`(?i)(host|hosts|hostname|server|servers|address|addr|broker|brokers|endpoint|endpoints)$`)
	hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	// longest bounds what is looked through of one value.
	longest = 256 << 10
)

// hostsIn are the hosts that a variable, a property or an argument names, without the
// application's own machine. It finds what looks like one; what it does not find is no
// proof.
func hostsIn(name, value string) []string {
	value = value[:min(len(value), longest)]
	found := map[string]bool{}
	add := func(host string) {
		host = strings.ToLower(strings.Trim(host, "."))
		if ip := net.ParseIP(host); host == "" || host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) || !hostName.MatchString(host) && ip == nil {
			return
		}
		found[linux.PrintableName(host)] = true
	}
	for _, m := range hostOfURL.FindAllStringSubmatch(value, -1) {
		for h := range strings.SplitSeq(m[1], ",") {
			if host, _, err := net.SplitHostPort(h); err == nil {
				h = host
			}
			add(strings.Trim(h, "[]"))
		}
	}
	for _, m := range hostAndPort.FindAllStringSubmatch(value, -1) {
		add(m[1])
	}
	if named.MatchString(name) {
		for h := range strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(" ,;\t\n", r) }) {
			if host, _, err := net.SplitHostPort(h); err == nil {
				h = host
			}
			add(h)
		}
	}
	return slices.Sorted(maps.Keys(found))
}
