package hotspot

import "strings"

// ThreadKind says whose work a thread of a JVM does.
type ThreadKind int

// The kinds of threads.
const (
	// ApplicationThread runs Java code, or is the application's own native thread.
	// The JVM's Java threads that run the application's or the library's code are of
	// it too: finalizers, reference handlers, cleaners.
	ApplicationThread ThreadKind = iota
	// CollectorThread collects garbage, or helps to.
	CollectorThread
	// OperationsThread is the VM Thread. All of its work but collections is small:
	// the Serial collector collects in it, the others do there what of a pause is
	// not parallel (JDK: src/hotspot/share/runtime/vmThread.cpp).
	OperationsThread
	// CompilerThread compiles.
	CompilerThread
	// ServiceThread is any other thread of the JVM: ticks, signals, the flight
	// recorder, the sweeper of the code cache.
	ServiceThread
)

// comms are the names of HotSpot's threads as the kernel keeps them, JDK 8 to 27. The
// kernel keeps 15 bytes: the first ones, or since JDK 26 the first seven, two dots and
// the last six (JDK: os::set_native_thread_name in src/hotspot/os/linux/os_linux.cpp).
// "#" at the end stands for that and a number; a name that was cut is cut here too.
// They are whole names: an application has threads named "Zookeeper" and "GCMonitor".
var comms = map[string]ThreadKind{
	"VM Thread": OperationsThread,

	// Parallel, G1, and CMS in 8 ("Gang worker#0 (Parallel GC Threads)").
	"GC Thread#": CollectorThread, "ParGC Thread#": CollectorThread, "GC task thread#": CollectorThread, "Gang worker#": CollectorThread,
	"G1 Conc#": CollectorThread, "G1 Main Marker": CollectorThread, "G1 Main Concurr": CollectorThread, "G1 Concurrent R": CollectorThread,
	"G1 Refine#": CollectorThread, "G1 Refi..kers#": CollectorThread, "G1 Refi..ontrol": CollectorThread,
	"G1 Service": CollectorThread, "G1 Young RemSet": CollectorThread,
	// The sampler of G1 has no name in 8 (JDK: NamedThread::NamedThread).
	"Unknown Thread":  CollectorThread,
	"CMS Main Thread": CollectorThread, "CMS Thread#": CollectorThread, "Concurrent Mark": CollectorThread, "Surrogate Locke": CollectorThread,
	// ZGC; with an X the one without generations in 21.
	"ZDirector": CollectorThread, "ZDriver": CollectorThread, "ZDriverMajor": CollectorThread, "ZDriverMinor": CollectorThread,
	"ZStat": CollectorThread, "ZUncommitter": CollectorThread, "ZUncommitter#": CollectorThread, "ZUnmapper": CollectorThread,
	"ZWorker#": CollectorThread, "ZWorkerOld#": CollectorThread, "ZWorkerYoung#": CollectorThread, "RuntimeWorker#": CollectorThread,
	"XDirector": CollectorThread, "XDriver": CollectorThread, "XStat": CollectorThread, "XUncommitter": CollectorThread,
	"XUnmapper": CollectorThread, "XWorker#": CollectorThread,
	"ShenandoahContr": CollectorThread, "Shenandoah Cont": CollectorThread, "Shenandoah GC T": CollectorThread, "Shenandoah Regu": CollectorThread,
	"Shenandoah Unco": CollectorThread, "Shenand..Thread": CollectorThread, "Shenand..eads#": CollectorThread,
	"ShenControl": CollectorThread, "ShenRegulator": CollectorThread, "ShenUncommit": CollectorThread, "ShenWorker#": CollectorThread,
	"String Deduplic": CollectorThread, "StrDedup": CollectorThread, "StringDedupProc": CollectorThread, "StringDedupThre": CollectorThread,
	"StringD..Thread": CollectorThread,

	"C1 CompilerThre": CompilerThread, "C2 CompilerThre": CompilerThread, "JVMCI CompilerT": CompilerThread, "JVMCI-native Co": CompilerThread,
	"C1 Comp..hread#": CompilerThread, "C2 Comp..hread#": CompilerThread, "C1 Comp..read#": CompilerThread, "C2 Comp..read#": CompilerThread,

	"VM Periodic Tas": ServiceThread, "VM Peri..Thread": ServiceThread, "Service Thread": ServiceThread, "Sweeper thread": ServiceThread,
	"Signal Dispatch": ServiceThread, "Signal ..atcher": ServiceThread, "Monitor Deflati": ServiceThread, "Monitor..Thread": ServiceThread,
	"Notification Th": ServiceThread, "Notific..Thread": ServiceThread, "Attach Listener": ServiceThread, "AsyncLog Thread": ServiceThread,
	"JFR Recorder Th": ServiceThread, "JFR Periodic Ta": ServiceThread, "JFR Sampler Thr": ServiceThread, "JFR Rec..Thread": ServiceThread,
	"JFR Per.. Tasks": ServiceThread, "JFR Sam..Thread": ServiceThread,
}

// KindOfThread tells the kind by the name that the kernel keeps of a thread. An
// application may name a thread of its own like one of the JVM's, and is believed.
func KindOfThread(comm string) ThreadKind {
	if kind, ok := comms[comm]; ok {
		return kind
	}
	// A gang worker's number is followed, in 8, by what the gang is for.
	stem := strings.TrimRight(strings.TrimRight(comm, " ("), "0123456789")
	if stem == comm {
		return ApplicationThread
	}
	if kind, ok := comms[strings.TrimSuffix(stem, "#")+"#"]; ok {
		return kind
	}
	return ApplicationThread
}
