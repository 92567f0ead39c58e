package linux

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestCPUQuota(t *testing.T) {
	const v2, v1 = "v2-systemd-6.1", "v1-hybrid-6.18"
	for _, c := range []struct {
		name, tree string
		files      map[string]string // below sys/fs/cgroup
		cpus       float64
	}{
		{"v2 without", v2, nil, 0},
		{"v2 max", v2, map[string]string{"system.slice/app.service/cpu.max": "max 100000\n"}, 0},
		{"v2 own", v2, map[string]string{"system.slice/app.service/cpu.max": "50000 100000\n"}, 0.5},
		{"v2 above", v2, map[string]string{
			"system.slice/app.service/cpu.max": "400000 100000\n", "system.slice/cpu.max": "150000 100000\n"}, 1.5},
		{"v1 none", v1, map[string]string{"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0},
		{"v1 two", v1, map[string]string{"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := edited(t, c.tree, "sys/fs/cgroup/unused", "")
			for path, text := range c.files {
				write(t, filepath.Join(fs.root, "sys/fs/cgroup", path), text)
			}
			cpus, limited, err := fs.CPUQuota(100)
			if err != nil || cpus != c.cpus || limited != (c.cpus > 0) {
				t.Errorf("%v, %v, %v", cpus, limited, err)
			}
		})
	}
	fs := edited(t, v2, "sys/fs/cgroup/system.slice/cpu.max", "plenty\n")
	if _, _, err := fs.CPUQuota(100); err == nil || !strings.Contains(err.Error(), "system.slice/cpu.max") {
		t.Errorf("error %v", err)
	}
}

func TestCPUShares(t *testing.T) {
	const v2, v1 = "v2-systemd-6.1", "v1-hybrid-6.18"
	for _, c := range []struct {
		tree, file, text string
		want             int64
	}{
		{v1, "cpu/unused", "", 1024},
		{v1, "cpu/cpu.shares", "2\n", 2},
		{v1, "cpu/cpu.shares", "1024\n", 1024},
		{v1, "cpu/cpu.shares", "3000\n", 3000},
		{v2, "system.slice/app.service/cpu.weight", "100\n", 1024},
		{v2, "system.slice/app.service/cpu.weight", "1\n", 1024},
		{v2, "system.slice/app.service/cpu.weight", "79\n", 2048},
		{v2, "system.slice/app.service/cpu.weight", "10000\n", 262144},
	} {
		got, err := shares(edited(t, c.tree, "sys/fs/cgroup/"+c.file, c.text))
		if err != nil || got != c.want {
			t.Errorf("%s %q: %d, %v; want %d", c.file, c.text, got, err, c.want)
		}
	}
	if _, err := shares(edited(t, v1, "sys/fs/cgroup/cpu/cpu.shares", "many\n")); err == nil || !strings.Contains(err.Error(), "cpu.shares") {
		t.Errorf("error %v", err)
	}
}

func shares(fs CgroupFS) (int64, error) {
	g, err := fs.Group(100)
	if err != nil {
		return 0, err
	}
	return g.CPUShares()
}

func FuzzParseCPUMax(f *testing.F) {
	f.Add("max 100000\n")
	f.Add("50000 100000\n")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := ParseCPUMax(strings.NewReader(text)); err == nil && !(n >= 0 && n < 1<<63) {
			t.Fatalf("%q: %v", text, n)
		}
	})
}
