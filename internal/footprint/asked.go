package footprint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"tare.dev/tare/internal/attach"
	"tare.dev/tare/internal/process"
)

// Asked is what the JVM answered when it was asked: with Options.Attach, and
// with Options.Deep. What was not asked for or not answered is nil.
type Asked struct {
	// HeapUsedBytes is in use of the object heap at this moment, dead objects
	// included.
	HeapUsedBytes *int64 `json:"heapUsedBytes,omitempty"`
	// CodeUsedBytes is the part of the code cache that holds code.
	CodeUsedBytes *int64          `json:"codeUsedBytes,omitempty"`
	Tracking      *Tracking       `json:"tracking,omitempty"`
	Classes       *ClassHistogram `json:"classes,omitempty"`
	Metaspace     *MetaspaceUse   `json:"metaspace,omitempty"`
	Loaders       *LoaderUse      `json:"loaders,omitempty"`
}

// Tracking is what the JVM's native memory tracking counts: the memory that the JVM
// asked for, by use. Not all of it need be resident.
type Tracking struct {
	Level      string            `json:"level"` // "summary" or "detail"
	Categories []TrackedCategory `json:"categories"`
}

// TrackedCategory is one use of memory, in bytes.
type TrackedCategory struct {
	Name           string `json:"name"` // the JVM's, such as "Symbol"
	ReservedBytes  int64  `json:"reservedBytes"`
	CommittedBytes int64  `json:"committedBytes"`
	// MallocBytes is the part that is from malloc, the JVM's own arenas included; the
	// rest is mapped.
	MallocBytes int64 `json:"mallocBytes"`
}

// ClassHistogram is the objects in the heap by class, live or not.
type ClassHistogram struct {
	Instances int64         `json:"instances"`
	Bytes     int64         `json:"bytes"`
	Largest   []ClassObject `json:"largest"`
}

// ClassObject is the objects of one class.
type ClassObject struct {
	Name      string `json:"name"` // as the JVM writes it: "[B" is byte[]
	Instances int64  `json:"instances"`
	Bytes     int64  `json:"bytes"`
}

// MetaspaceUse says how much of the memory for class metadata is in use.
type MetaspaceUse struct {
	CommittedBytes int64 `json:"committedBytes"`
	WasteBytes     int64 `json:"wasteBytes"` // holds nothing
}

// LoaderUse is the class loaders by type.
type LoaderUse struct {
	Loaders int64        `json:"loaders"`
	Classes int64        `json:"classes"`
	Largest []LoaderType `json:"largest"`
}

// LoaderType is the class loaders of one type.
type LoaderType struct {
	Type    string `json:"type"`
	Loaders int64  `json:"loaders"`
	Classes int64  `json:"classes"`
	// MetaspaceBytes is what they were given, UsedBytes what they use of it.
	MetaspaceBytes int64 `json:"metaspaceBytes"`
	UsedBytes      int64 `json:"usedBytes"`
}

const (
	// listedClasses and listedLoaders bound what is kept of the answers.
	listedClasses = 50
	listedLoaders = 20
	// answerTimeout bounds how long tare waits for one answer.
	answerTimeout = 30 * time.Second
	// deepTimeout is for answers that take longer the larger the heap is.
	deepTimeout = 5 * time.Minute
)

// question is a diagnostic command, and what is done with its answer.
type question struct {
	source, command string
	take            func(answer io.Reader) error
}

// questions are those that this JVM knows an answer to, and whose answer says
// what is not known without it.
func (s *scan) questions() []question {
	var out []question
	switch {
	case s.vm.NMT == "detail":
		out = append(out, question{SourceTracking, "VM.native_memory detail scale=KB", s.takeTrackedRegions})
	case s.vm.NMT == "summary":
		out = append(out, question{"native memory tracking (summary)", "VM.native_memory summary scale=KB", s.takeTracking})
		if s.vm.Major >= 21 {
			out = append(out, question{"system map", "System.map", func(r io.Reader) (err error) {
				s.mapped, err = attach.ParseSystemMap(r)
				return err
			}})
		}
	default:
		s.notes = append(s.notes, "native memory tracking is "+cmp.Or(s.vm.NMT, "unknown")+": start the JVM with -XX:NativeMemoryTracking=detail to have --attach ask for it")
	}
	out = append(out, question{"heap in use", "GC.heap_info", func(r io.Reader) error {
		used, err := attach.ParseHeapUsed(r)
		if err == nil {
			s.asked.HeapUsedBytes = &used
		}
		return err
	}})
	if s.vm.Major >= 9 {
		out = append(out, question{"code in use", "Compiler.codecache", s.takeCodeUse})
	}
	return out
}

// deepQuestions are those that the JVM stops its threads for.
func (s *scan) deepQuestions() []question {
	out := []question{{"class histogram", "GC.class_histogram -all", s.takeHistogram}}
	if s.vm.Major >= 11 {
		out = append(out, question{"metaspace in use", "VM.metaspace scale=KB", s.takeMetaspace})
	}
	return append(out, question{"class loaders", "VM.classloader_stats", s.takeLoaders})
}

// ask asks the JVM. It fails when the JVM must not be asked; what else goes
// wrong is said of the source, and ends the questions unless the JVM merely
// refused one.
func (s *scan) ask(ctx context.Context, opts Options) error {
	if s.vm.Flags["DisableAttachMechanism"] == "true" {
		return fmt.Errorf("process %d runs with -XX:+DisableAttachMechanism and would answer with a thread dump on its output: %w", s.target.PID, attach.ErrUnsafe)
	}
	s.asked = &Asked{}
	if err := s.put(ctx, opts, answerTimeout, s.questions()); err != nil || !opts.Deep {
		return err
	}
	if opts.Announce != nil {
		opts.Announce(s.cost())
	}
	return s.put(ctx, opts, deepTimeout, s.deepQuestions())
}

func (s *scan) put(ctx context.Context, opts Options, timeout time.Duration, questions []question) error {
	for _, q := range questions {
		err := s.timed(q.source, func() error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return attach.Ask(ctx, opts.Proc, s.target, q.command, q.take)
		})
		if errors.Is(err, attach.ErrUnsafe) || errors.Is(err, process.ErrNoProcess) {
			return err
		}
		if err != nil && !errors.Is(err, attach.ErrRefused) && !errors.Is(err, attach.ErrAnswer) {
			return nil // it is said of the source
		}
	}
	return nil
}

// Cost is what decides how long the JVM's threads are stopped.
type Cost struct {
	HeapUsedBytes int64 // 0 when unknown
	Classes       int64
	Threads       int
}

func (s *scan) cost() Cost {
	c := Cost{Classes: int64(len(s.vm.Classes)), Threads: s.target.Status.Threads}
	if s.vm.Counters != nil {
		c.Classes, c.HeapUsedBytes = s.vm.Counters.LoadedClasses, s.vm.Counters.HeapUsed
	}
	if used := s.asked.HeapUsedBytes; used != nil {
		c.HeapUsedBytes = *used
	}
	return c
}

// takeTrackedRegions takes regions and, from the same answer, the sums.
func (s *scan) takeTrackedRegions(answer io.Reader) error {
	sums, regions, err := attach.ParseNMTDetail(answer)
	if err == nil {
		s.regions = regions
		s.keepTracking(sums)
	}
	return err
}

func (s *scan) takeTracking(answer io.Reader) error {
	sums, err := attach.ParseNMTSummary(answer)
	if err == nil {
		s.keepTracking(sums)
	}
	return err
}

func (s *scan) keepTracking(sums *attach.NMTSummary) {
	s.asked.Tracking = &Tracking{Level: s.vm.NMT}
	for _, c := range sums.Categories {
		s.asked.Tracking.Categories = append(s.asked.Tracking.Categories, TrackedCategory{
			Name: c.Name, ReservedBytes: c.ReservedBytes, CommittedBytes: c.CommittedBytes, MallocBytes: c.MallocBytes + c.ArenaBytes,
		})
	}
}

func (s *scan) takeCodeUse(answer io.Reader) error {
	heaps, err := attach.ParseCodeCache(answer)
	if err != nil {
		return err
	}
	var used int64
	for _, h := range heaps {
		used += h.UsedBytes
	}
	s.asked.CodeUsedBytes = &used
	return nil
}

func (s *scan) takeHistogram(answer io.Reader) error {
	h, err := attach.ParseHistogram(answer, listedClasses)
	if err != nil {
		return err
	}
	s.asked.Classes = &ClassHistogram{Instances: h.Instances, Bytes: h.Bytes, Largest: make([]ClassObject, len(h.Classes))}
	for i, c := range h.Classes {
		s.asked.Classes.Largest[i] = ClassObject{c.Name, c.Instances, c.Bytes}
	}
	return nil
}

func (s *scan) takeMetaspace(answer io.Reader) error {
	u, err := attach.ParseMetaspace(answer)
	if err == nil {
		s.asked.Metaspace = &MetaspaceUse{u.CommittedBytes, u.WasteBytes}
	}
	return err
}

func (s *scan) takeLoaders(answer io.Reader) error {
	types, all, err := attach.ParseLoaders(answer, listedLoaders)
	if err != nil {
		return err
	}
	s.asked.Loaders = &LoaderUse{Loaders: all.Loaders, Classes: all.Classes, Largest: make([]LoaderType, len(types))}
	for i, t := range types {
		s.asked.Loaders.Largest[i] = LoaderType{t.Type, t.Loaders, t.Classes, t.ChunkBytes, t.BlockBytes}
	}
	return nil
}
