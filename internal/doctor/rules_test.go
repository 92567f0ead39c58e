package doctor

import (
	"tare.dev/tare/internal/footprint"
)

// ruleCases are changes of a healthy footprint, and what a rule makes of them.
var ruleCases = []struct {
	id, name  string
	change    func(change)
	bytes     int64
	certainty Certainty
	says      string
}{
	{"heap-above-live", "garbage", func(f change) { f.Heap.AfterGCBytes = 20 * mib }, 20 * mib, Likely, "-Xmx40m"},
	{"heap-above-live", "less than three times", func(f change) { f.Heap.AfterGCBytes = 20*mib + 1 }, none, "", ""},
	{"heap-above-live", "few collections", func(f change) { f.Heap.AfterGCBytes, f.Heap.Collections = 20*mib, 9 }, 20 * mib, Possible, ""},
	{"heap-above-live", "no collection", func(f change) { f.Heap.AfterGCBytes, f.Heap.Collections = 20*mib, 0 }, none, "", ""},
	{"heap-above-live", "small", func(f change) { f.Heap.AfterGCBytes, f.Heap.UsedBytes = mib, 20*mib }, none, "", ""},
	{"heap-above-live", "used by the regions", func(f change) {
		f.Heap.AfterGCBytes, f.Heap.UsedBytes = 20*mib, 20*mib
		f.part(footprint.JavaHeap, footprint.PartFreeHeap).ResidentBytes = 10 * mib
	}, 20 * mib, Likely, ""},
	{"heap-above-live", "used by eden", func(f change) {
		f.Collector, f.Heap.AfterGCBytes, f.Heap.UsedBytes = "Serial", 10*mib, 10*mib
		f.part(footprint.JavaHeap, footprint.PartEden).ResidentBytes = 30 * mib
	}, 20 * mib, Likely, ""},

	{"heap-not-returned", "within the usual ratio", func(f change) {
		f.row(footprint.JavaHeap).ResidentBytes, f.Heap.UsedBytes, f.Heap.AfterGCBytes = 104*mib, 35*mib, 30*mib
	}, none, "", ""},
	{"heap-not-returned", "kept by G1", func(f change) {
		f.row(footprint.JavaHeap).ResidentBytes, f.Heap.UsedBytes, f.Heap.AfterGCBytes = 110*mib, 35*mib, 30*mib
	}, 10 * mib, Likely, "G1PeriodicGCInterval=60000: collects"},
	{"heap-not-returned", "the initial heap", func(f change) {
		f.row(footprint.JavaHeap).ResidentBytes, f.Heap.UsedBytes, f.Heap.AfterGCBytes = 110*mib, 35*mib, 9*mib
	}, 75 * mib, Likely, "a lower -Xms: it is 32.0 MiB"},
	{"heap-not-returned", "kept by Parallel", func(f change) {
		f.Collector = "Parallel"
		f.row(footprint.JavaHeap).ResidentBytes, f.Heap.UsedBytes, f.Heap.AfterGCBytes = 110*mib, 35*mib, 30*mib
	}, 10 * mib, Likely, "MaxHeapFreeRatio=40"},
	{"heap-not-returned", "kept by G1 of JDK 11", func(f change) {
		f.JDK = "11.0.24"
		delete(f.Flags, "G1PeriodicGCInterval")
		f.row(footprint.JavaHeap).ResidentBytes, f.Heap.UsedBytes, f.Heap.AfterGCBytes = 110*mib, 35*mib, 30*mib
	}, 10 * mib, Likely, "jcmd 4242 GC.run"},
	{"heap-not-returned", "touched in advance", func(f change) {
		f.Flags["AlwaysPreTouch"] = "true"
		f.row(footprint.JavaHeap).ResidentBytes, f.Heap.UsedBytes, f.Heap.AfterGCBytes = 110*mib, 35*mib, 30*mib
	}, none, "", ""},

	{"heap-pretouched", "idle", func(f change) {
		f.Flags["AlwaysPreTouch"], f.Heap.Collections, f.Heap.AfterGCBytes, f.Heap.UsedBytes = "true", 0, 0, mib
	}, 69 * mib, Certain, "a lower -Xms: it is 32.0 MiB"},
	{"heap-pretouched", "in use", func(f change) {
		f.Flags["AlwaysPreTouch"], f.Heap.UsedBytes, f.Heap.AfterGCBytes = "true", 66*mib, 30*mib
	}, none, "", ""},
	{"heap-pretouched", "hardly more than in use", func(f change) {
		f.Flags["AlwaysPreTouch"], f.Heap.UsedBytes, f.Heap.AfterGCBytes = "true", 50*mib, 30*mib
	}, 10 * mib, Certain, ""},

	{"heap-counted-twice", "three mappings", func(f change) {
		f.Collector, f.row(footprint.JavaHeap).RepeatedBytes, f.PSSBytes = "ZGC", 40*mib, 200*mib
	}, 40 * mib, Certain, "of Rss 40.0 MiB are mapped once before; Rss is 240.0 MiB, Pss 200.0 MiB"},
	{"heap-counted-twice", "Pss is not known", func(f change) {
		f.Collector, f.row(footprint.JavaHeap).RepeatedBytes, f.PSSBytes = "ZGC", 40*mib, 0
	}, 40 * mib, Certain, ""},
	{"heap-counted-twice", "one mapping", func(f change) { f.Collector, f.PSSBytes = "ZGC", 100*mib }, none, "", ""},

	{"files-counted-twice", "a database", func(f change) { f.row(footprint.MappedFiles).RepeatedBytes = 20 * mib }, 20 * mib, Certain, "by the usage of its control group"},
	{"files-counted-twice", "parts of libraries meet", func(f change) { f.row(footprint.MappedFiles).RepeatedBytes = mib }, none, "", ""},

	{"compact-headers-off", "JDK 25", func(f change) {
		f.JDK, f.Flags["UseCompactObjectHeaders"], f.Heap.AfterGCBytes = "25.0.3", "false", 50*mib
	}, 5 * mib, Possible, "-XX:+UseCompactObjectHeaders"},
	{"compact-headers-off", "small", func(f change) {
		f.JDK, f.Flags["UseCompactObjectHeaders"] = "25.0.3", "false"
	}, none, "", ""},
	{"compact-headers-off", "JDK 24", func(f change) {
		f.JDK, f.Flags["UseCompactObjectHeaders"], f.Heap.AfterGCBytes = "24.0.1", "false", 50*mib
	}, none, "", ""},
	{"compact-headers-off", "on", func(f change) {
		f.JDK, f.Flags["UseCompactObjectHeaders"], f.Heap.AfterGCBytes = "27", "true", 50*mib
	}, none, "", ""},

	{"stacks-huge-pages", "seen", func(f change) {
		r := f.row(footprint.ThreadStacks)
		r.ResidentBytes, r.HugeBytes = 30*mib, 20*mib
	}, 20 * mib, Certain, "20.0 MiB of it in huge pages"},
	{"stacks-huge-pages", "one", func(f change) { f.row(footprint.ThreadStacks).HugeBytes = 2 * mib }, none, "", ""},
	{"stacks-huge-pages", "split", func(f change) {
		f.Host.THP, f.Threads, f.row(footprint.ThreadStacks).ResidentBytes = "always", 40, 20*mib
	}, 15 * mib, Likely, "6.1.0-18-amd64 takes huge pages: always"},
	{"stacks-huge-pages", "not half of a stack", func(f change) {
		f.Host.THP, f.Threads, f.row(footprint.ThreadStacks).ResidentBytes = "always", 41, 20*mib
	}, none, "", ""},
	{"stacks-huge-pages", "asked for only", func(f change) { f.row(footprint.ThreadStacks).ResidentBytes = 20 * mib }, none, "", ""},
	{"stacks-huge-pages", "Linux 6.7", func(f change) {
		f.Host.THP, f.Host.Kernel, f.row(footprint.ThreadStacks).ResidentBytes = "always", "6.7.1", 20*mib
	}, none, "", ""},
	{"stacks-huge-pages", "of 2 MiB on JDK 11", func(f change) {
		f.JDK, f.Flags["ThreadStackSize"] = "11.0.24", "2048"
		delete(f.Flags, "THPStackMitigation")
		f.Host.THP, f.row(footprint.ThreadStacks).ResidentBytes = "always", 40*mib
	}, 35 * mib, Likely, "-Xss2032k"},
	{"stacks-huge-pages", "mitigation off", func(f change) {
		f.Flags["THPStackMitigation"], f.Host.THP, f.row(footprint.ThreadStacks).ResidentBytes = "false", "always", 20*mib
	}, 15 * mib, Likely, "remove -XX:-THPStackMitigation"},

	{"threads-many", "300", func(f change) { f.Threads, f.row(footprint.ThreadStacks).ResidentBytes = 300, 25*mib }, 25 * mib, Likely, "virtual threads"},
	{"threads-many", "299", func(f change) { f.Threads, f.row(footprint.ThreadStacks).ResidentBytes = 299, 25*mib }, none, "", ""},
	{"threads-many", "small", func(f change) { f.Threads, f.row(footprint.ThreadStacks).ResidentBytes = 300, 4*mib }, none, "", ""},

	{"threads-deep", "one by name", func(f change) {
		f.part(footprint.ThreadStacks, footprint.PartLargestThreads).Children[0].ResidentBytes = 8 * mib
	}, 8*mib - 128*kib, Likely, "http-1 8.0 MiB"},
	{"threads-deep", "all", func(f change) {
		f.row(footprint.ThreadStacks).ResidentBytes = 20 * mib
	}, 15 * mib, Likely, "512 KiB each on average"},
	{"threads-deep", "not so deep", func(f change) {
		f.part(footprint.ThreadStacks, footprint.PartLargestThreads).Children[0].ResidentBytes = 512*kib - 1
		f.row(footprint.ThreadStacks).ResidentBytes = 20*mib - 40
	}, none, "", ""},

	{"malloc-kept", "much", func(f change) {
		f.part(footprint.Malloc, footprint.PartFreeMalloc).ResidentBytes = 15 * mib
	}, 15 * mib, Likely, "-XX:TrimNativeHeapInterval=5000"},
	{"malloc-kept", "trimmed already", func(f change) {
		f.part(footprint.Malloc, footprint.PartFreeMalloc).ResidentBytes, f.Flags["TrimNativeHeapInterval"] = 15*mib, "1000"
	}, 15 * mib, Likely, "trims every 1000 ms already"},
	{"malloc-kept", "little", func(f change) {
		f.part(footprint.Malloc, footprint.PartFreeMalloc).ResidentBytes = 240*mib/50 - 1
	}, none, "", ""},

	{"malloc-large", "direct buffers", func(f change) {
		f.part(footprint.Malloc, footprint.PartLargeChunks).ResidentBytes = 16 * mib
	}, 16 * mib, Likely, "-XX:MaxDirectMemorySize=32m"},
	{"malloc-large", "JDK 8", func(f change) {
		f.JDK, f.part(footprint.Malloc, footprint.PartLargeChunks).ResidentBytes = "1.8.0_504", 16*mib
	}, 16 * mib, Likely, "and Internal of"},
	{"malloc-large", "few", func(f change) { f.part(footprint.Malloc, footprint.PartLargeChunks).ResidentBytes = 16*mib - 1 }, none, "", ""},

	{"malloc-in-use", "a quarter of Rss", func(f change) {
		f.row(footprint.Malloc).ResidentBytes, f.row(footprint.Malloc).UsedBytes = 80*mib, ptr[int64](64*mib)
	}, 64 * mib, Possible, "NativeMemoryTracking=summary"},
	{"malloc-in-use", "less", func(f change) {
		f.row(footprint.Malloc).ResidentBytes, f.row(footprint.Malloc).UsedBytes = 80*mib, ptr[int64](64*mib-1)
	}, none, "", ""},
	{"malloc-in-use", "less than a quarter", func(f change) {
		f.RSSBytes, f.row(footprint.Malloc).ResidentBytes, f.row(footprint.Malloc).UsedBytes = 260*mib, 80*mib, ptr[int64](64*mib)
	}, none, "", ""},

	{"metaspace-waste", "half empty chunks", func(f change) {
		f.Classes, f.row(footprint.Metaspace).ResidentBytes = 2560, 29*mib
	}, 12 * mib, Possible, "12 KiB a class"},
	{"metaspace-waste", "JDK 11", func(f change) {
		f.JDK, f.Classes, f.row(footprint.Metaspace).ResidentBytes = "11.0.24", 2560, 29*mib
	}, 12 * mib, Possible, "JDK 16"},
	{"metaspace-waste", "enough classes", func(f change) {
		f.Classes, f.row(footprint.Metaspace).ResidentBytes = 2800, 29*mib
	}, none, "", ""},
	{"metaspace-waste", "small", func(f change) {
		f.Classes, f.row(footprint.Metaspace).ResidentBytes = 2000, 29*mib-1
	}, none, "", ""},

	{"classes-many", "20000", func(f change) {
		f.Classes, f.row(footprint.Metaspace).ResidentBytes = 20_000, 97*mib
	}, 100 * mib, Possible, "MaxMetaspaceSize=200m"},
	{"classes-many", "fewer", func(f change) {
		f.Classes, f.row(footprint.Metaspace).ResidentBytes = 19_999, 97*mib
	}, none, "", ""},

	{"code-cache-full", "nearly", func(f change) {
		f.part(footprint.CodeCache, "profiled-methods").CommittedBytes = ptr[int64](41 * mib)
	}, 20 * mib, Certain, "-XX:ReservedCodeCacheSize=144m"},
	{"code-cache-full", "not yet", func(f change) {
		f.part(footprint.CodeCache, "profiled-methods").CommittedBytes = ptr[int64](40 * mib)
	}, none, "", ""},

	{"code-cache-reserved", "240 of 512 MiB", func(f change) {
		f.Flags["ReservedCodeCacheSize"] = "251658240"
	}, 0, Possible, "-XX:ReservedCodeCacheSize=100m"},
	{"code-cache-reserved", "without a limit", func(f change) {
		f.Flags["ReservedCodeCacheSize"], f.Cgroup.LimitBytes, f.Cgroup.HeadroomBytes = "251658240", nil, nil
	}, none, "", ""},
	{"code-cache-reserved", "a small part of the limit", func(f change) {
		f.Flags["ReservedCodeCacheSize"], f.Cgroup.LimitBytes = "251658240", ptr[int64](1<<30)
	}, none, "", ""},
	{"code-cache-reserved", "in use", func(f change) {
		f.Flags["ReservedCodeCacheSize"], f.row(footprint.CodeCache).CommittedBytes = "251658240", ptr[int64](61*mib)
	}, none, "", ""},

	{"archive-absent", "switched off", func(f change) {
		*f.row(footprint.CDS), f.Classes = footprint.Row{Owner: footprint.CDS}, 1300
	}, 12 * mib, Certain, "remove -Xshare:off"},
	{"archive-absent", "many classes", func(f change) {
		*f.row(footprint.CDS), f.Classes = footprint.Row{Owner: footprint.CDS}, 13_000
	}, share(12*mib, 0.1), Certain, ""},
	{"archive-absent", "JDK 11", func(f change) {
		*f.row(footprint.CDS), f.Classes, f.JDK = footprint.Row{Owner: footprint.CDS}, 1300, "11.0.24"
	}, 12 * mib, Certain, "java -Xshare:dump once, with the same collector"},
	{"archive-absent", "JDK 8", func(f change) {
		*f.row(footprint.CDS), f.Classes, f.JDK = footprint.Row{Owner: footprint.CDS}, 1300, "1.8.0_504"
	}, 12 * mib, Certain, "-Xshare:auto"},
	{"archive-absent", "nothing to archive", func(f change) {
		*f.row(footprint.CDS), f.Classes = footprint.Row{Owner: footprint.CDS}, 1300*13
	}, none, "", ""},
	{"archive-absent", "not paged in", func(f change) { f.row(footprint.CDS).ResidentBytes = 0 }, none, "", ""},

	{"archive-unused", "of other jars", func(f change) { f.Flags["SharedArchiveFile"] = "/app/other.jsa" }, 12 * mib, Certain, "-Xshare:on"},
	{"archive-unused", "one of two", func(f change) { f.Flags["SharedArchiveFile"] = "/jdk/classes.jsa:/app/other.jsa" }, 12 * mib, Certain, "names other.jsa"},
	{"archive-unused", "an AOT cache", func(f change) { f.JDK, f.Flags["AOTCache"] = "25.0.3", "app.aot" }, 12 * mib, Certain, "-XX:AOTMode=on"},
	{"archive-unused", "in use", func(f change) { f.Flags["SharedArchiveFile"] = "/app/app.jsa" }, none, "", ""},
	{"archive-unused", "a name that does not tell", func(f change) { f.Flags["SharedArchiveFile"] = "/app/archive" }, none, "", ""},
	{"archive-unused", "of a process id", func(f change) { f.Flags["SharedArchiveFile"] = "/app/app%p.jsa" }, none, "", ""},

	{"archive-relocated", "by default", func(f change) {
		f.Flags["ArchiveRelocationMode"], f.row(footprint.CDS).AnonymousBytes = "1", 33*mib
	}, 33 * mib, Certain, "-XX:ArchiveRelocationMode=0"},
	{"archive-relocated", "the address was taken", func(f change) { f.row(footprint.CDS).AnonymousBytes = 33 * mib }, 33 * mib, Likely, "SharedBaseAddress"},
	{"archive-relocated", "clean", func(f change) {
		f.Flags["ArchiveRelocationMode"], f.row(footprint.CDS).AnonymousBytes = "1", 20*mib-1
	}, none, "", ""},
	{"archive-relocated", "JDK 11", func(f change) {
		delete(f.Flags, "ArchiveRelocationMode")
		f.row(footprint.CDS).AnonymousBytes = 33 * mib
	}, none, "", ""},

	{"archive-without-app", "JDK 21", func(f change) {
		f.row(footprint.CDS).Children = f.row(footprint.CDS).Children[1:]
		f.row(footprint.Metaspace).ResidentBytes = 13 * mib
	}, 16 * mib, Possible, "AutoCreateSharedArchive"},
	{"archive-without-app", "JDK 25", func(f change) {
		f.JDK, f.row(footprint.CDS).Children = "25.0.3", f.row(footprint.CDS).Children[1:]
		f.row(footprint.Metaspace).ResidentBytes = 13 * mib
	}, 16 * mib, Possible, "AOTCacheOutput"},
	{"archive-without-app", "JDK 17", func(f change) {
		f.JDK, f.row(footprint.CDS).Children = "17.0.12", f.row(footprint.CDS).Children[1:]
		f.row(footprint.Metaspace).ResidentBytes = 13 * mib
	}, 16 * mib, Possible, "ArchiveClassesAtExit"},
	{"archive-without-app", "small", func(f change) {
		f.row(footprint.CDS).Children = f.row(footprint.CDS).Children[1:]
		f.row(footprint.Metaspace).ResidentBytes = 13*mib - 1
	}, none, "", ""},
	{"archive-without-app", "with", func(f change) { f.row(footprint.Metaspace).ResidentBytes = 13 * mib }, none, "", ""},

	{"limit-below-heap", "over", func(f change) { f.Flags["MaxHeapSize"] = "402653184" }, 32 * mib, Likely, "-Xmx300m"},
	{"limit-below-heap", "the rest alone", func(f change) {
		f.Flags["MaxHeapSize"], f.Cgroup.UsageBytes = "402653184", 570*mib
	}, 342 * mib, Likely, "largest heap 384.0 MiB + everything else 470.0 MiB"},
	{"limit-below-heap", "just fits", func(f change) { f.Flags["MaxHeapSize"] = "369098752" }, none, "", ""},
	{"limit-below-heap", "no limit", func(f change) {
		f.Flags["MaxHeapSize"], f.Cgroup.LimitBytes, f.Cgroup.HeadroomBytes = "402653184", nil, nil
	}, none, "", ""},

	{"headroom-small", "20 of 500 MiB", func(f change) {
		f.Cgroup.LimitBytes, f.Cgroup.UsageBytes, f.Cgroup.HeadroomBytes = ptr[int64](500*mib), 510*mib, ptr[int64](20*mib)
		f.Cgroup.Events["oom_kill"], f.Cgroup.Events["max"] = 2, 7
	}, 30 * mib, Certain, "oom_kill 2"},
	{"headroom-small", "a tenth", func(f change) {
		f.Cgroup.LimitBytes, f.Cgroup.HeadroomBytes = ptr[int64](500*mib), ptr[int64](50*mib)
	}, none, "", ""},
	{"headroom-small", "swap is left", func(f change) {
		f.Cgroup.LimitBytes, f.Cgroup.UsageBytes, f.Cgroup.HeadroomBytes = ptr[int64](500*mib), 510*mib, ptr[int64](20*mib)
		f.Cgroup.SwapLeftBytes = ptr[int64](30 * mib)
	}, none, "", ""},
	{"limit-below-heap", "a heap in hugetlbfs", func(f change) {
		f.Cgroup.LimitBytes, f.Cgroup.UsageBytes = ptr[int64](100*mib), 90*mib
		f.row(footprint.JavaHeap).HugetlbBytes = 300 * mib
	}, none, "", ""},
	{"heap-not-returned", "a heap in hugetlbfs", func(f change) {
		f.row(footprint.JavaHeap).HugetlbBytes = 600 * mib
	}, none, "", ""},
	{"high-reached", "above it", func(f change) {
		f.Cgroup.HighBytes, f.Cgroup.HighHeadroomBytes = ptr[int64](200*mib), ptr[int64](-5*mib)
	}, 25 * mib, Certain, "memory.high is 200.0 MiB"},
	{"high-reached", "a tenth", func(f change) {
		f.Cgroup.HighBytes, f.Cgroup.HighHeadroomBytes = ptr[int64](200*mib), ptr[int64](20*mib)
	}, none, "", ""},

	{"cpu-threads", "of 16 processors", func(f change) {
		f.Flags["ParallelGCThreads"], f.Flags["ConcGCThreads"], f.Flags["CICompilerCount"] = "4", "1", "12"
		f.Flags["UseContainerSupport"] = "false"
	}, 100 * kib, Likely, "-XX:ParallelGCThreads=2 -XX:CICompilerCount=2"},
	{"cpu-threads", "Serial", func(f change) {
		f.Collector, f.Flags["ParallelGCThreads"] = "Serial", "4"
	}, none, "", ""},
	{"cpu-threads", "no quota", func(f change) {
		f.Flags["ParallelGCThreads"], f.Cgroup.CPUs = "4", nil
	}, none, "", ""},
	{"cpu-threads", "a part of a processor", func(f change) { f.Cgroup.CPUs = ptr(1.5) }, none, "", ""},

	{"cache-squeezed", "read again", func(f change) {
		f.Cgroup.UsageBytes, f.Cgroup.Events["workingset_refault_file"] = 461*mib, 16385
		f.Cgroup.ReclaimableBytes = 230 * mib
	}, 73 * mib, Possible, "16385 pages"},
	{"cache-squeezed", "read again and waited", func(f change) {
		f.Cgroup.UsageBytes, f.Cgroup.Events["workingset_refault_file"] = 461*mib, 16385
		f.Cgroup.ReclaimableBytes, f.Cgroup.PressureSome300 = 230*mib, ptr(1.0)
	}, 73 * mib, Likely, "1.00 %"},
	{"cache-squeezed", "waited", func(f change) { f.Cgroup.PressureSome300 = ptr(1.0) }, 73 * mib, Possible, ""},
	{"cache-squeezed", "hardly", func(f change) {
		f.Cgroup.UsageBytes, f.Cgroup.Events["workingset_refault_file"] = 461*mib, 16384
		f.Cgroup.ReclaimableBytes, f.Cgroup.PressureSome300 = 230*mib, ptr(0.99)
	}, none, "", ""},
	{"cache-squeezed", "long ago", func(f change) { f.Cgroup.Events["workingset_refault_file"] = 100_000 }, none, "", ""},

	{"swap", "the heap", func(f change) {
		f.row(footprint.JavaHeap).SwapBytes, f.row(footprint.Malloc).SwapBytes = 30*mib, 40*mib
	}, 70 * mib, Certain, "malloc 40.0 MiB, java-heap 30.0 MiB"},
	{"swap", "a few pages", func(f change) { f.row(footprint.JavaHeap).SwapBytes = mib - 1 }, none, "", ""},

	{"host-memory", "little left", func(f change) {
		f.Host.MemAvailableBytes = 50 * mib
	}, 8 * mib, Likely, "-Xmx115m"},
	{"host-memory", "enough", func(f change) { f.Host.MemAvailableBytes = 58 * mib }, none, "", ""},
	{"host-memory", "the limit is nearer", func(f change) {
		f.Host.MemAvailableBytes, f.Cgroup.HeadroomBytes = 50*mib, ptr[int64](49*mib)
	}, none, "", ""},

	{"nmt-misleads", "JDK 8", func(f change) {
		f.JDK, f.Flags["NativeMemoryTracking"] = "1.8.0_504", "summary"
	}, 0, Certain, "reserved, about 40.0 MiB"},
	{"nmt-misleads", "JDK 21", func(f change) {
		f.Flags["NativeMemoryTracking"], f.Threads = "detail", 64
	}, 0, Certain, "the guard zone of each Java thread, up to 1.0 MiB"},
	{"nmt-misleads", "JDK 26", func(f change) {
		f.JDK, f.Flags["NativeMemoryTracking"] = "26.0.2", "detail"
	}, 0, Certain, "neighbouring stacks for one"},
	{"nmt-misleads", "few threads", func(f change) {
		f.Flags["NativeMemoryTracking"], f.Threads = "detail", 63
	}, none, "", ""},
	{"nmt-misleads", "off", func(f change) { f.JDK, f.Threads = "26.0.2", 1000 }, none, "", ""},
}
