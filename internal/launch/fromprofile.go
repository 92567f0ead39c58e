package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/profile"
)

// TooSmallError says that a container has less memory than the application was
// proven to need.
type TooSmallError struct {
	BudgetBytes, ProvenBytes int64
	From                     string
}

// Error names both sizes and the next step.
func (e *TooSmallError) Error() string {
	return fmt.Sprintf("%d MiB here (%s), and the application was proven to need %d MiB: raise the limit, or start it all the same with --force",
		e.BudgetBytes/mib, e.From, e.ProvenBytes/mib)
}

// extraShare is the percentage of the memory beyond what was proven that the
// heap gets; the rest is for what grows with it.
const extraShare = 75

// profilePath is where the profile is: TARE_PROFILE names it, else it is beside
// the jar. TARE_PROFILE=none is none.
func profilePath(env []string, jar, dir string) (path string, named bool) {
	if path, ok := jvmopts.LookupEnv(env, "TARE_PROFILE"); ok && path != "" {
		if path == "none" {
			return "", false
		}
		return absolute(path, dir), true
	}
	if jar == "" {
		return "", false
	}
	return filepath.Join(filepath.Dir(absolute(jar, dir)), profile.FileName), false
}

// takeArchive has the profile that TARE_PROFILE names take the class archive at its
// archive's place for its own: that of a build which trained it anew.
func (p Program) takeArchive(command []string) error {
	path, named := profilePath(p.Env, "", p.Dir)
	if !named || len(command) > 0 {
		return usage("--take-archive starts nothing, and is of the tare.json that TARE_PROFILE names")
	}
	proven, err := profile.Read(path, profile.TrustFor(""))
	if err != nil {
		return err
	}
	if proven.Archive == nil {
		return usage("%s has no class archive", path)
	}
	if proven.Archive, err = profile.DescribeArchive(proven.Archive.File); err != nil {
		return fmt.Errorf("class archive: %w: train it first", err)
	}
	return proven.Write(path)
}

func absolute(path, dir string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func fileSize(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// scale takes the proven options to this container.
func (p *plan) scale(f *facts, proven *profile.Profile, dir string, trust profile.Trust, force bool) error {
	limit := f.budget.MemoryBytes
	if limit > 0 && limit < proven.LimitBytes {
		err := &TooSmallError{limit, proven.LimitBytes, f.budget.MemoryFrom}
		if !force {
			return err
		}
		p.warn("%d MiB here, %d MiB proven: it may be killed", limit/mib, proven.LimitBytes/mib)
	}
	if f.budget.CPUs > 0 && float64(f.budget.CPUs) < proven.CPUs {
		p.warn("%d processors here, %g where it was proven: it may be slower", f.budget.CPUs, proven.CPUs)
	}
	archive, usable := p.provenArchive(f, proven, dir, trust)
	for _, option := range proven.Options {
		p.provenOption(f, proven, option, archive, usable)
	}
	for _, e := range proven.Env {
		p.add(Advice{Set: []string{e}, From: FromProfile, Why: "proven with it", Source: "tare fit"})
	}
	if proven.NoHugePages && !p.settled(jvmopts.HugePages) {
		p.withoutHugePages(Advice{From: FromProfile, Why: "proven with it", Source: "tare fit"})
	}
	return nil
}

// provenArchive finds the class archive: where it was, or beside the profile.
// It is usable when it is the proven one and this is the JVM that made it.
func (p *plan) provenArchive(f *facts, proven *profile.Profile, dir string, trust profile.Trust) (path string, usable bool) {
	if proven.Archive == nil {
		return "", true
	}
	if proven.JDK != f.java.Version {
		p.warn("proven with JDK %s, here is %s: its class archive is left out, and it needs more memory than was proven", proven.JDK, f.java.Version)
		return "", false
	}
	path, err := proven.Archive.Find(trust, filepath.Join(dir, filepath.Base(proven.Archive.File)), proven.Archive.File)
	if path != "" {
		return path, true
	}
	if err == nil {
		err = errors.New("it is neither there nor beside the profile")
	}
	p.warn("the proven class archive %s is left out, and more memory is needed than was proven: %v", proven.Archive.File, err)
	return "", false
}

func (p *plan) provenOption(f *facts, proven *profile.Profile, option, archive string, usable bool) {
	if name := flagName(option); name != "" && !f.java.Has(name) {
		p.warn("proven with %s, which this JVM does not have: it is left out", option)
		return
	}
	a := Advice{Set: []string{option}, From: FromProfile, Why: "proven with it", Source: "tare fit"}
	if proven.Archive != nil && strings.Contains(option, "="+proven.Archive.File) {
		if !usable {
			return
		}
		a.Set[0] = strings.ReplaceAll(option, proven.Archive.File, archive)
	}
	if flagName(option) == "InitialHeapSize" && f.budget.MemoryBytes < proven.LimitBytes {
		return // it may be more than the heap that is left
	}
	heap := int64(0)
	if strings.HasPrefix(option, "-Xmx") {
		bytes := optionBytes(option)
		heap = scaleHeap(bytes, proven.LimitBytes, f.budget.MemoryBytes)
		a.Set[0] = fmt.Sprintf("-Xmx%dm", heap/mib)
		a.Why = fmt.Sprintf("proven: %d MiB heap in %d MiB; here are %d", bytes/mib, proven.LimitBytes/mib, f.budget.MemoryBytes/mib)
	}
	if strings.HasPrefix(option, "-XX:+Unlock") {
		a.Why = "unlocks options that were proven"
	}
	if p.add(a) && heap > 0 {
		p.heap = heap
	}
}

// optionBytes is the size that an option sets; 0 when it is none.
func optionBytes(option string) int64 {
	o, _ := jvmopts.Read(jvmopts.Input{Args: []string{option}})
	return size(o, "MaxHeapSize")
}

// scaleHeap gives the heap its part of what is beyond the proven limit; below
// it, the heap shrinks in proportion.
func scaleHeap(heap, proven, limit int64) int64 {
	switch {
	case limit >= proven:
		heap += (limit - proven) / 100 * extraShare
	case limit > 0:
		heap = int64(float64(heap) * (float64(limit) / float64(proven)))
	}
	return max(minHeapBytes, heap/heapStep*heapStep)
}
