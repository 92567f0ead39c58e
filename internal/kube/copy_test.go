package kube

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestHostsIn(t *testing.T) {
	for text, want := range map[string]string{
		"A=jdbc:postgresql://db1.prod,db2.prod:5432/shop?user=x": "db1.prod db2.prod", "URL=http://user:secret@Shop.example:8080/a": "shop.example",
		"KAFKA=a-1:9092,a-2:9092": "a-1 a-2", "DB_HOST=10.1.2.3": "10.1.2.3", "REDIS_SERVERS=r1;r2:6379": "r1 r2", "X=http://[fd00::1]:80/": "fd00::1",
		"L=http://localhost:8080 http://127.0.0.1/": "", "JAVA_TOOL_OPTIONS=-Xmx64m -XX:+UseSerialGC": "", "T=12:30:00": "12", "NAME=shop": "", "P=8080": "",
	} {
		name, value, _ := strings.Cut(text, "=")
		if got := strings.Join(hostsIn(name, value), " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// What is found is short, without control characters, once each, and never the own machine.
func FuzzHostsIn(f *testing.F) {
	f.Add("DB_HOST", "jdbc:postgresql://a,b:1/c")
	f.Fuzz(func(t *testing.T, name, value string) {
		got := hostsIn(name, value)
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) || slices.Contains(got, "localhost") {
			t.Errorf("%q", got)
		}
		for _, h := range got {
			if h == "" || strings.ContainsFunc(h, func(r rune) bool { return r < ' ' }) {
				t.Errorf("%q", h)
			}
		}
	})
}

// What would be in the way of the original, or shared with it, is refused.
func TestTakeRefuses(t *testing.T) {
	app := corev1.Container{Name: "shop", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}
	claim := corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}}}
	for want, spec := range map[string]corev1.PodSpec{
		"volume data at /data would be shared": {Containers: []corev1.Container{app}, Volumes: []corev1.Volume{claim}},
		"shares the node's network":            {Containers: []corev1.Container{app}, HostNetwork: true},
		"no container":                         {},
	} {
		if err := new(Copy).take(spec, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
