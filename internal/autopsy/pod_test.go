package autopsy

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/kernellog"
	"tare.dev/tare/internal/kubeapi"
)

// recorded is a pod of a real cluster (Kubernetes 1.35.4, containerd, cgroup v1) after its
// end, with its events and the autopsy that the agent of its node made.
type recorded struct {
	Pod    kubeapi.Pod           `json:"pod"`
	Events []kubeapi.EventObject `json:"events"`
	JVM    *Report               `json:"jvm"`
}

func readPod(t testing.TB, name string) PodInput {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "pods", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return PodInput{Pod: r.Pod, Events: r.Events, JVM: r.JVM}
}

func TestExaminePod(t *testing.T) {
	const mib = 1 << 20
	for name, want := range map[string]struct {
		verdict   PodVerdict
		how       doctor.Certainty
		container string
		limit     int64
	}{
		"container-limit": {PodContainerLimit, doctor.Likely, "shop", 128 * mib},
		"pod-limit":       {PodLimit, doctor.Likely, "shop", 160 * mib},
		"sidecar":         {PodSidecar, doctor.Certain, "shop", 64 * mib},
		"child":           {PodChild, doctor.Likely, "shop", 128 * mib},
		"evicted":         {PodEvicted, doctor.Certain, "shop", 0},
		"probe":           {PodProbe, doctor.Certain, "shop", 0},
		"exit":            {PodExited, doctor.Certain, "shop", 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := readPod(t, name)
			for _, agent := range []bool{true, false} {
				if !agent {
					in.JVM, in.Container = nil, want.container
				}
				r, err := ExaminePod(in)
				if err != nil || r.Verdict != want.verdict || r.Confidence != want.how || r.Container != want.container || r.LimitBytes != want.limit {
					t.Errorf("agent %v: %+v, %v", agent, r, err)
				}
				if len(r.Evidence) == 0 || (len(r.Missing) == 0) != agent {
					t.Errorf("agent %v: evidence %q, missing %q", agent, r.Evidence, r.Missing)
				}
			}
		})
	}
}

// killedIn makes the recorded autopsy one in which the kernel named a group.
func killedIn(in PodInput, group string) PodInput {
	jvm := *in.JVM
	jvm.Kill = &kernellog.Kill{LimitGroup: group}
	in.JVM = &jvm
	return in
}

// Where the kernel named the group whose limit was reached, that is certain.
func TestTheKernelSaysWhoseLimit(t *testing.T) {
	path := readPod(t, "pod-limit").JVM.JVM.Group.Path
	pod := filepath.Dir(path)
	for _, c := range []struct {
		name, group string
		want        PodVerdict
	}{
		{"pod-limit", pod, PodLimit},
		{"pod-limit", path, PodContainerLimit},
		{"pod-limit", "/kubepods", PodNode},
		// The kubelet gives a pod of one container that container's limit.
		{"container-limit", filepath.Dir(readPod(t, "container-limit").JVM.JVM.Group.Path), PodContainerLimit},
	} {
		in := readPod(t, c.name)
		if in.JVM.JVM.Container == "" {
			in.JVM.JVM.Container = kubeapi.ID(in.Pod.Status.Containers[0].State.Terminated.ContainerID)
		}
		r, err := ExaminePod(killedIn(in, c.group))
		if err != nil || r.Verdict != c.want || r.Confidence != doctor.Certain {
			t.Errorf("%s, %s: %+v, %v", c.name, c.group, r, err)
		}
	}
}

// Where nothing is started again, the kubelet's event of the end names no probe; that of
// a pod which somebody deletes is the same.
func TestProbeOfAPodThatIsNotStartedAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		with func(*PodInput)
		want PodVerdict
		how  doctor.Certainty
	}{
		{"probe", func(*PodInput) {}, PodProbe, doctor.Likely},
		{"deleted", func(in *PodInput) { in.Pod.Metadata.Deleted = &time.Time{} }, PodStopped, doctor.Certain},
		{"too late", func(in *PodInput) { in.Pod.Status.Reason = "DeadlineExceeded" }, PodStopped, doctor.Certain},
		{"no probe failed", func(in *PodInput) {
			in.Events = slices.DeleteFunc(in.Events, func(e kubeapi.EventObject) bool { return e.Reason == "Unhealthy" })
		}, PodStopped, doctor.Certain},
	} {
		in := readPod(t, "probe")
		for i := range in.Events {
			if e := &in.Events[i]; e.Reason == "Killing" {
				e.Message = "Stopping container shop"
			}
		}
		in.Pod.Status.Containers[0].LastState.Terminated.ExitCode = 143
		c.with(&in)
		if r, err := ExaminePod(in); err != nil || r.Verdict != c.want || r.Confidence != c.how {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
	}
}

// An exit code of 137 alone is no want of memory.
func TestKilledByNobodyKnown(t *testing.T) {
	in := readPod(t, "probe")
	in.Events = nil
	end := in.Pod.Status.Containers[0].LastState.Terminated
	end.ExitCode = 137
	r, err := ExaminePod(in)
	if err != nil || r.Verdict != PodUnknown || strings.Contains(r.Headline, "limit") {
		t.Errorf("%+v, %v", r, err)
	}
	in.Container = "nothing"
	if _, err := ExaminePod(in); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func TestAPodThatNeverRan(t *testing.T) {
	in := PodInput{}
	text := `{"pod":{"metadata":{"name":"p","namespace":"n","uid":"u"},"status":{"phase":"Pending"}},
		"events":[{"reason":"FailedScheduling","message":"0/1 nodes: \u001b[31minsufficient memory","involvedObject":{"name":"p","uid":"u"}}]}`
	var r recorded
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	in.Pod, in.Events = r.Pod, r.Events
	report, err := ExaminePod(in)
	if err != nil || report.Verdict != PodNeverRan || strings.Contains(report.Evidence[0].Text, "\x1b") {
		t.Errorf("%+v, %v", report, err)
	}
}

func FuzzExaminePod(f *testing.F) {
	files, _ := filepath.Glob("testdata/pods/*.json")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var in recorded
		if json.Unmarshal(text, &in) != nil {
			return
		}
		r, err := ExaminePod(PodInput{Pod: in.Pod, Events: in.Events, JVM: in.JVM})
		if err == nil && (r.Verdict == "" || r.Confidence == "" || r.Headline == "") {
			t.Errorf("no verdict: %+v", r)
		}
	})
}
