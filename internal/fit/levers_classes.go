package fit

import "tare.dev/tare/internal/footprint"

const archiveCost = "a file to be made anew for each build of the application and each JDK; its address is predictable"

var unlockRelocation = []string{"-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0"}

// classLevers load classes from where they take less memory.
var classLevers = []Lever{
	{
		ID: "jars", Blind: true, Name: "nested jars extracted", Extract: true,
		Why:    "classes come from plain jars: no unpacking in memory, and class archives hold them",
		Cost:   "another layout in the image",
		Undo:   "start the jar as built",
		Since:  feature(8),
		Breaks: "what looks for its own jar finds a folder of jars beside it",
		Rows:   []footprint.Owner{footprint.JavaHeap, footprint.Malloc}, bound: boundJars,
		Harms: []Harm{HarmRun},
	},
	{
		ID: "archive", Blind: true, Name: "application class archive",
		Options:     []string{"-XX:SharedArchiveFile={archive}"},
		TrainOption: "-XX:ArchiveClassesAtExit={archive}",
		Why:         "classes come parsed and ready from a file instead of metaspace (JEP 350)",
		Cost:        "a file to be made anew for each build of the application and each JDK",
		Undo:        "leave the option out, and remove the file",
		Since:       feature(13), Before: feature(17), Rows: []footprint.Owner{footprint.Metaspace, footprint.ClassSpace, footprint.MappedFiles}, bound: boundArchive,
		Harms: []Harm{HarmRun},
	},
	{
		ID: "archive", Blind: true, Name: "application class archive",
		Options:     append([]string{"-XX:SharedArchiveFile={archive}"}, unlockRelocation...),
		TrainOption: "-XX:ArchiveClassesAtExit={archive}",
		Why:         "classes come parsed and ready from a file, as clean pages instead of metaspace (JEP 350); not relocated, or they were dirty",
		Cost:        archiveCost, Undo: "leave the option out, and remove the file",
		Mark: Diagnostic, Placement: true,
		Since: feature(17), Before: feature(25), Rows: []footprint.Owner{footprint.Metaspace, footprint.ClassSpace, footprint.CDS}, bound: boundArchive,
		Harms: []Harm{HarmRun},
	},
	{
		ID: "archive", Blind: true, Name: "AOT cache",
		// The cache has objects of the heap. Where they do not fit into the heap that the
		// JVM begins with, by default a 64th of the limit, it does not start: "Try increasing
		// your heap size" (aotMetaspace.cpp). It must not depend on the limit.
		Options:     append([]string{"-XX:AOTCache={archive}", "-XX:InitialHeapSize={initial}m"}, unlockRelocation...),
		TrainOption: "-XX:AOTCacheOutput={archive}",
		Why:         "classes come loaded and linked from a file, as clean pages instead of metaspace (JEP 514); not relocated, or they were dirty",
		Cost:        archiveCost, Undo: "leave the option out, and remove the file",
		Mark: Diagnostic, Placement: true,
		Since: feature(25), Rows: []footprint.Owner{footprint.Metaspace, footprint.ClassSpace, footprint.CDS}, bound: boundArchive,
		Harms: []Harm{HarmRun},
	},
}

// placementLevers leave the class archive where it was made for.
var placementLevers = []Lever{
	{
		ID: "relocation", Blind: true, Name: "class archive not relocated",
		Options: unlockRelocation,
		Why:     "its pages stay clean and backed by the file: shared, and free to be dropped",
		Cost:    "the archive's address is predictable",
		Mark:    Diagnostic, Placement: true,
		Since: feature(17), Flag: "ArchiveRelocationMode", Moot: "0", Rows: []footprint.Owner{footprint.CDS}, bound: boundRelocation,
	},
}
