package report

import (
	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/document"
)

// podVerdicts are the verdicts as a reader sees them.
var podVerdicts = map[autopsy.PodVerdict]string{
	autopsy.PodContainerLimit: "the container's limit", autopsy.PodLimit: "the pod's limit", autopsy.PodNode: "the node's memory",
	autopsy.PodChild: "another process of the container", autopsy.PodSidecar: "another container of the pod", autopsy.PodEvicted: "eviction",
	autopsy.PodProbe: "liveness probe", autopsy.PodStopped: "stopped", autopsy.PodExited: "ended by itself", autopsy.PodJVM: "the JVM itself",
	autopsy.PodRunning: "it runs", autopsy.PodNeverRan: "it never ran", autopsy.PodUnknown: "not known",
}

// PodAutopsy shows why a container of a pod ended, and below that the autopsy of its JVM.
func PodAutopsy(r *autopsy.PodReport) *document.Document {
	d := &document.Document{Title: r.Headline}
	d.Add(verdictItem(podVerdicts[r.Verdict], r.Confidence, r.Evidence))
	for _, m := range r.Missing {
		d.Add(note(m))
	}
	if r.JVM == nil {
		return d
	}
	jvm := Autopsy(r.JVM)
	d.Add(heading("The JVM: " + jvm.Title))
	d.Add(jvm.Blocks...)
	return d
}
