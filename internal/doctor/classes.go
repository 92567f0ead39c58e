package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
)

const (
	// wasteBytes is less metadata than which waste does not matter.
	wasteBytes = 32 * mib
	// classBytes is what a class takes of metaspace and class space on
	// average: 5 to 7 KiB were measured on services of 600 to 10 000 classes.
	classBytes = 8 * kib
	// wasteful is when classes take so much that chunks must be half empty.
	wasteful = 12 * kib
	// manyClasses is more than a large service of several frameworks loads.
	manyClasses = 20_000
	// absentBytes is the least metadata that an archive would hold.
	absentBytes = mib
	// archivedClasses is how many classes the JDK's own archive holds:
	// 1300 to 1700 on JDK 11 to 27.
	archivedClasses = 1300
	// relocatedPart is more of an archive than runs write to without
	// relocation: 22 to 27 % were measured on JDK 11 to 27, 80 % with it.
	relocatedPart = 0.5
	// appBytes is the least metadata of an application that an archive of its
	// own is worth.
	appBytes = 16 * mib
	// codeFull is the part of a code heap from which on the JVM sweeps code
	// out, and soon stops compiling.
	codeFull = 0.9
	// codeSpare is how many times more is reserved than committed to be worth
	// a note, calculatorShare the part of the limit that is then charged.
	codeSpare       = 4
	calculatorShare = 4
)

const sourceCDS = "https://docs.oracle.com/en/java/javase/21/vm/class-data-sharing.html"

// metadata is what classes take outside of the archive.
func (p *patient) metadata() int64 {
	return p.row(footprint.Metaspace).ResidentBytes + p.row(footprint.ClassSpace).ResidentBytes
}

func (p *patient) metadataEvidence() string {
	return fmt.Sprintf("%d classes were loaded, %s of metadata are resident outside of an archive", p.Classes, size(p.metadata()))
}

// metaspaceWaste: metadata takes more than its classes need.
func metaspaceWaste(p *patient) *Finding {
	n := p.metadata()
	if p.Classes <= 0 || n < wasteBytes || n/p.Classes < wasteful {
		return nil
	}
	do := []string{fmt.Sprintf("see which class loaders hold it: jcmd %d VM.metaspace show-loaders (JDK 11+)", p.PID)}
	if p.major > 0 && p.major < 16 {
		do = append(do, "JDK 16 or later gives metadata of unloaded classes back (JEP 387)")
	}
	return &Finding{
		Title:        "Class metadata takes more than its classes need.",
		BytesAtStake: n - p.Classes*classBytes, Certainty: Possible,
		Evidence: []string{p.metadataEvidence(), fmt.Sprintf("%d KiB a class, where 6 are usual: many class loaders waste the rest of their chunks", n/p.Classes/kib)},
		Do:       do,
		Source:   "https://openjdk.org/jeps/387",
	}
}

// classesMany: so many classes that something may make them.
func classesMany(p *patient) *Finding {
	n := p.metadata()
	if p.Classes < manyClasses || n/p.Classes >= wasteful || !p.worth(n) {
		return nil
	}
	return &Finding{
		Title:        fmt.Sprintf("%d classes were loaded.", p.Classes),
		BytesAtStake: n, Certainty: Possible,
		Evidence: []string{p.metadataEvidence()},
		Do: []string{
			fmt.Sprintf("see which loaders hold them, and whether they are generated: jcmd %d VM.classloader_stats", p.PID),
			"-XX:MaxMetaspaceSize=" + megabytes(2*n) + ", so that a leak of classes fails early",
		},
		Cost:   "OutOfMemoryError when metadata reaches the limit",
		Source: "https://docs.oracle.com/en/java/javase/21/gctuning/",
	}
}

// codeCacheFull: a code heap is nearly used up.
func codeCacheFull(p *patient) *Finding {
	var evidence []string
	var stake int64
	for _, h := range p.row(footprint.CodeCache).Children {
		// The JVM's own code finds room in the other heaps.
		if h.ID == footprint.PartJVMCode || h.CommittedBytes == nil || h.ReservedBytes == nil || *h.ReservedBytes == 0 {
			continue
		}
		if float64(*h.CommittedBytes) >= codeFull*float64(*h.ReservedBytes) {
			stake += h.ResidentBytes
			evidence = append(evidence, fmt.Sprintf("%s: %s of %s are committed", h.Name, size(*h.CommittedBytes), size(*h.ReservedBytes)))
		}
	}
	if len(evidence) == 0 {
		return nil
	}
	do := "a larger -XX:ReservedCodeCacheSize"
	if n, ok := p.number("ReservedCodeCacheSize"); ok {
		do = "-XX:ReservedCodeCacheSize=" + megabytes(n+n/2)
	}
	return &Finding{
		Title:        "The code cache is nearly full: soon compiled code is thrown away, or nothing more is compiled.",
		BytesAtStake: stake, Certainty: Certain, Evidence: evidence,
		Do:     []string{do, fmt.Sprintf("see what fills it: jcmd %d Compiler.codecache (JDK 9+)", p.PID)},
		Cost:   "as much memory as is compiled then",
		Source: "https://openjdk.org/jeps/197",
	}
}

// codeCacheReserved: calculators that charge what is reserved charge too much.
func codeCacheReserved(p *patient) *Finding {
	row := p.row(footprint.CodeCache)
	reserved, ok := p.number("ReservedCodeCacheSize")
	if !ok || p.limit() == 0 || row.CommittedBytes == nil || *row.CommittedBytes <= 0 {
		return nil
	}
	if reserved < p.limit()/calculatorShare || reserved < codeSpare**row.CommittedBytes {
		return nil
	}
	return &Finding{
		Title:     "Far more code cache is reserved than used: that costs nothing, unless something reckons with it.",
		Certainty: Possible,
		Evidence:  []string{fmt.Sprintf("%s are reserved, %s committed, %s resident", size(reserved), size(*row.CommittedBytes), size(row.ResidentBytes))},
		Do:        []string{"only where a memory calculator charges it: -XX:ReservedCodeCacheSize=" + megabytes(max(2**row.CommittedBytes, 16*mib))},
		Cost:      "compilation stops when it is full",
		Source:    "https://paketo.io/docs/reference/java-reference/",
	}
}

// archiveAbsent: no class is taken from an archive.
func archiveAbsent(p *patient) *Finding {
	row := p.row(footprint.CDS)
	if len(p.Flags) == 0 || row.ResidentBytes > 0 || row.ReservedBytes != nil && *row.ReservedBytes > 0 || archiveUnused(p) != nil {
		return nil
	}
	n := p.metadata()
	if p.Classes > archivedClasses {
		n = share(n, archivedClasses/float64(p.Classes))
	}
	if p.major == 0 || n < absentBytes {
		return nil
	}
	evidence := []string{p.metadataEvidence()}
	if p.has("UseSharedSpaces") {
		evidence = append(evidence, "UseSharedSpaces is "+p.Flags["UseSharedSpaces"])
	}
	return &Finding{
		Title:        "No class archive (CDS) is in use: the metadata of the JDK's own classes is private memory.",
		BytesAtStake: n, Certainty: Certain, Evidence: evidence,
		Do:     p.makeArchive(),
		Cost:   "the archive's file pages are resident as well, but shared, and dropped under pressure",
		Source: sourceCDS,
	}
}

// archiveUnused: the JVM was told to use an archive that it does not have mapped.
// It goes on without one that is of another JDK, other jars or another collector,
// and says nothing.
func archiveUnused(p *patient) *Finding {
	flag, name := p.unmappedArchive()
	if flag == "" {
		return nil
	}
	evidence := []string{fmt.Sprintf("-XX:%s names %s, and no such file is mapped", flag, name), p.metadataEvidence()}
	if p.is("UseSharedSpaces", "false") {
		evidence = append(evidence, "UseSharedSpaces is false: there is no archive at all")
	}
	why := "see why: -Xshare:on ends the JVM with the reason"
	if p.major >= 24 {
		why = "see why: -XX:AOTMode=on, or -Xshare:on for a .jsa, ends the JVM with the reason"
	}
	return &Finding{
		Title:        "The class archive that was given is not in use: its classes are private memory, and the start is slower.",
		BytesAtStake: p.metadata(), Certainty: Certain, Evidence: evidence,
		Do:     []string{why, "make it anew with this JDK, these jars in this order, and this collector; one that is only being recorded comes with the next start"},
		Source: sourceCDS,
	}
}

// unmappedArchive is a flag that names an archive, and its file, where that is not
// mapped; "" where all are, or their names do not tell.
func (p *patient) unmappedArchive() (flag, name string) {
	archives := p.row(footprint.CDS).Children
	for _, flag := range []string{"AOTCache", "SharedArchiveFile"} {
		for file := range strings.SplitSeq(p.Flags[flag], string(filepath.ListSeparator)) { // a static and a dynamic one
			name := linux.PrintableName(filepath.Base(file))
			told := strings.HasSuffix(name, ".jsa") || strings.HasSuffix(name, ".aot")
			if told && !strings.Contains(name, "%") && !slices.ContainsFunc(archives, func(c footprint.Child) bool { return c.ID == footprint.FilePart(name) }) {
				return flag, name
			}
		}
	}
	return "", ""
}

// makeArchive says how this JDK gets an archive.
func (p *patient) makeArchive() []string {
	switch {
	case p.major < 11:
		return []string{"java -Xshare:dump once, as who owns the JDK, then -Xshare:auto"}
	case p.major < 17:
		return []string{"java -Xshare:dump once, with the same collector and heap size, as who owns the JDK"}
	}
	return []string{"remove -Xshare:off; where the JDK has no archive: java -Xshare:dump once. " +
		"Together with -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0: relocated, it is private too"}
}

// archiveRelocated: the archive was moved at the start, which wrote to nearly
// all of it.
func archiveRelocated(p *patient) *Finding {
	row := p.row(footprint.CDS)
	mode, ok := p.number("ArchiveRelocationMode")
	if !ok || !p.worth(row.AnonymousBytes) || float64(row.AnonymousBytes) < relocatedPart*float64(row.ResidentBytes) {
		return nil
	}
	f := &Finding{
		Title:        "The class archive was relocated at the start: its pages are private and dirty.",
		BytesAtStake: row.AnonymousBytes, Certainty: Certain,
		Evidence: []string{fmt.Sprintf("%s: %s of %s are private", names(row.Children), size(row.AnonymousBytes), size(row.ResidentBytes)),
			"a quarter of an archive becomes private in any case"},
		Do:     []string{"-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"},
		Cost:   "the archive lies at a predictable address: less address space randomisation",
		Source: "JDK: src/hotspot/share/cds/cds_globals.hpp, ArchiveRelocationMode",
	}
	if mode == 0 {
		f.Certainty = Likely
		f.Evidence = append(f.Evidence, "ArchiveRelocationMode is 0: the address that it was made for must have been taken")
		f.Do = []string{"make the archive anew for another address: -XX:SharedBaseAddress with -Xshare:dump"}
		f.Cost = ""
	}
	return f
}

// names names the largest parts.
func names(children []footprint.Child) string {
	const most = 3
	var out []string
	for i, c := range children {
		if i == most {
			out = append(out, fmt.Sprintf("%d more", len(children)-most))
			break
		}
		out = append(out, linux.PrintableName(c.Name))
	}
	if len(out) == 0 {
		return "archive"
	}
	return strings.Join(out, ", ")
}

// archiveWithoutApp: only the JDK's own classes come from an archive.
func archiveWithoutApp(p *patient) *Finding {
	archives := p.row(footprint.CDS).Children
	n := p.metadata()
	if p.major < 13 || len(archives) == 0 || n < appBytes || !p.worth(n) || archiveUnused(p) != nil {
		return nil
	}
	for _, a := range archives {
		if file, _ := footprint.FileOfPart(a.ID); !strings.HasPrefix(file, "classes") || !strings.HasSuffix(file, ".jsa") {
			return nil
		}
	}
	return &Finding{
		Title:        "The application's classes come from no archive: their metadata is private memory.",
		BytesAtStake: n, Certainty: Possible,
		Evidence: []string{p.metadataEvidence(), "the archive in use is the JDK's own: " + names(archives)},
		Do:       p.archiveApp(),
		Cost:     "a file to make anew with each build; relocated, it is private memory as well",
		Source:   sourceCDS,
	}
}

// archiveApp says how this JDK archives an application.
func (p *patient) archiveApp() []string {
	const clean = ", with -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
	switch {
	case p.major >= 25:
		return []string{"-XX:AOTCacheOutput=app.aot once, then -XX:AOTCache=app.aot" + clean}
	case p.major >= 19:
		return []string{"-XX:+AutoCreateSharedArchive -XX:SharedArchiveFile=app.jsa" + clean}
	}
	return []string{"-XX:ArchiveClassesAtExit=app.jsa once, then -XX:SharedArchiveFile=app.jsa" + clean}
}
