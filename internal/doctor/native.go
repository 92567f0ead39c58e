package doctor

import (
	"fmt"

	"tare.dev/tare/internal/footprint"
)

const (
	// largeBytes and largeShare are when large chunks of malloc are worth a
	// look: a JVM has a few MiB of them itself.
	largeBytes = 16 * mib
	largeShare = 20 // a twentieth of Rss
	// inUseBytes and inUseShare are when what malloc has in use is worth a
	// look: the JVM itself has tens of MiB.
	inUseBytes = 64 * mib
	inUseShare = 4 // a quarter of Rss
)

// mallocKept: glibc keeps what was freed.
func mallocKept(p *patient) *Finding {
	kept := p.Part(footprint.Malloc, footprint.PartFreeMalloc)
	if kept == nil || !p.worth(kept.ResidentBytes) {
		return nil
	}
	row := p.row(footprint.Malloc)
	evidence := []string{fmt.Sprintf("%s of %s are free, in %d arenas", size(kept.ResidentBytes), size(row.ResidentBytes), row.Arenas)}
	do := []string{"MALLOC_ARENA_MAX=2 in the environment"}
	if every, ok := p.number("TrimNativeHeapInterval"); ok {
		if every == 0 {
			do = append(do, "-XX:TrimNativeHeapInterval=5000: gives back every five seconds (JDK 17.0.12+, 21+)")
		} else {
			evidence = append(evidence, fmt.Sprintf("the JVM trims every %d ms already", every))
		}
		do = append(do, fmt.Sprintf("once and now: jcmd %d System.trim_native_heap", p.PID))
	}
	return &Finding{
		Title:        "glibc keeps freed memory in its arenas.",
		BytesAtStake: kept.ResidentBytes, Certainty: Likely, Evidence: evidence, Do: do,
		Cost:   "with few arenas threads wait for each other in malloc; trimming holds them up for moments",
		Source: "https://bugs.openjdk.org/browse/JDK-8293114",
	}
}

// mallocInUse: much native memory is in use.
func mallocInUse(p *patient) *Finding {
	row := p.row(footprint.Malloc)
	if row.UsedBytes == nil {
		return nil
	}
	used := min(*row.UsedBytes, row.ResidentBytes)
	if used < max(inUseBytes, p.RSSBytes/inUseShare) {
		return nil
	}
	return &Finding{
		Title:        "Much native memory is in use: perhaps a leak.",
		BytesAtStake: used, Certainty: Possible,
		Evidence: []string{fmt.Sprintf("%s of malloc's arenas are in use, a part of %s that it has resident", size(used), size(row.ResidentBytes))},
		Do: []string{
			fmt.Sprintf("-XX:NativeMemoryTracking=summary, then now and later: jcmd %d VM.native_memory. ", p.PID) +
				"What that does not count is a library's: Inflaters and zip streams that nobody closes, JNI",
		},
		Cost:   "native memory tracking takes some per cent of memory and time",
		Source: "https://docs.oracle.com/en/java/javase/21/vm/native-memory-tracking.html",
	}
}

// mallocLarge: large chunks of malloc, which in a JVM are direct buffers most
// of the time.
func mallocLarge(p *patient) *Finding {
	chunks := p.Part(footprint.Malloc, footprint.PartLargeChunks)
	if chunks == nil || chunks.ResidentBytes < max(largeBytes, p.RSSBytes/largeShare) {
		return nil
	}
	evidence := []string{size(chunks.ResidentBytes) + " in chunks that malloc maps one by one (128 KiB and more)"}
	if most, ok := p.number("MaxDirectMemorySize"); ok && most == 0 {
		evidence = append(evidence, "MaxDirectMemorySize is not set: direct buffers may take as much as the largest heap")
	} else if ok {
		evidence = append(evidence, "MaxDirectMemorySize is "+size(most))
	}
	category := "Other"
	if p.major == 8 {
		category = "Internal"
	}
	return &Finding{
		Title:        "Large pieces of native memory are in use, most likely direct buffers.",
		BytesAtStake: chunks.ResidentBytes, Certainty: Likely, Evidence: evidence,
		Do: []string{
			fmt.Sprintf("to be sure: -XX:NativeMemoryTracking=summary, and %s of: jcmd %d VM.native_memory", category, p.PID),
			"-XX:MaxDirectMemorySize=" + megabytes(2*chunks.ResidentBytes) + ", so that a leak fails early",
			"-Djdk.nio.maxCachedBufferSize=262144: no large buffers in the caches of threads",
		},
		Cost:   "OutOfMemoryError when direct buffers reach the limit",
		Source: "https://docs.oracle.com/en/java/javase/21/docs/specs/man/java.html",
	}
}
