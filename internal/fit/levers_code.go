package fit

import "tare.dev/tare/internal/footprint"

// compilerLevers have less compiled, or by fewer compilers.
var compilerLevers = []Lever{
	{
		ID: "c1", Blind: true, Name: "C1 alone",
		Options: []string{"-XX:TieredStopAtLevel=1"},
		Why:     "without C2: none of its working memory, smaller code, no profiles",
		Cost:    "hot code runs slower once warm",
		Slows:   true, Compiles: true, Since: feature(8), Before: feature(22), Flag: "TieredStopAtLevel", Moot: "1",
		Rows: []footprint.Owner{footprint.Malloc, footprint.CodeCache, footprint.Metaspace}, bound: boundC1,
		Harms: []Harm{HarmSpeed},
	},
	{
		ID: "c1", Blind: true, Name: "C1 alone, its compilations bounded",
		Options: []string{"-XX:TieredStopAtLevel=1", "-XX:CompileCommand=quiet", "-XX:CompileCommand=MemLimit,*.*,3m"},
		Why:     "without C2: none of its working memory, smaller code, no profiles; nor more than 3 MiB for one compilation (JDK-8318016)",
		Cost:    "hot code runs slower once warm; the few methods whose compilation would need more stay interpreted",
		Slows:   true, Compiles: true, Since: feature(22), Flag: "TieredStopAtLevel", Moot: "1",
		Rows: []footprint.Owner{footprint.Malloc, footprint.CodeCache, footprint.Metaspace}, bound: boundC1,
		Harms: []Harm{HarmSpeed},
	},
	hotCode(Lever{
		Options: []string{"-XX:Tier3InvocationThreshold={scale*2}00", "-XX:Tier3MinInvocationThreshold={scale}00", "-XX:Tier3CompileThreshold={scale*2}000", "-XX:Tier3BackEdgeThreshold={scale*6}0000"},
		Scales:  []Scale{{30, 0.65}},
		Since:   feature(8), Before: feature(9), Flag: "Tier3InvocationThreshold",
	}),
	hotCode(Lever{
		Options: []string{"-XX:CompileThresholdScaling={scale}"},
		Scales:  []Scale{{30, 0.4}, {10, 0.5}},
		Since:   feature(9), Before: feature(25), Flag: "CompileThresholdScaling",
	}),
	hotCode(Lever{
		Options: []string{"-XX:CompileThresholdScaling={scale}"},
		// The AOT cache tells what was hot in training, which is compiled sooner (JEP 515).
		Scales: []Scale{{30, 0.65}, {10, 0.85}},
		Since:  feature(25), Flag: "CompileThresholdScaling",
	}),
	{
		ID: "compilers", NothingBeside: []string{"c1"}, Name: "two compiler threads",
		Options: []string{"-XX:CICompilerCount=2"},
		Why:     "each thread has a working memory of its own; their number goes by the processors",
		Cost:    "a slower warm-up",
		Slows:   true, Compiles: true, Since: feature(8), Flag: "CICompilerCount", Moot: "2",
		Rows: []footprint.Owner{footprint.Malloc, footprint.ThreadStacks}, bound: boundCompilers,
		Harms: []Harm{HarmStart},
	},
}

// codeCacheLevers bound what is kept of compiled code.
var codeCacheLevers = []Lever{
	{
		ID: "code", Last: true, Name: "smaller code cache",
		Options: []string{"-XX:ReservedCodeCacheSize={code}m"},
		Why:     "code that is rarely used is dropped",
		Cost:    "it is compiled again when it is needed",
		Breaks:  "code for longer or other load than the trials' may fill it, and is interpreted then",
		Slows:   true, Compiles: true, Since: feature(8), Flag: "ReservedCodeCacheSize", Rows: []footprint.Owner{footprint.CodeCache}, bound: boundCode,
		Harms: []Harm{HarmSpeed, HarmStart},
	},
}

// hotCode completes a form of the lever that has hot code alone compiled.
func hotCode(l Lever) Lever {
	l.ID, l.Name, l.Blind, l.Slows, l.Compiles = "hot", "hot code alone compiled", true, true, true
	l.Why = "what runs a few hundred times, most of it at the start, stays interpreted: less code, and less of what HotSpot keeps in malloc for each method compiled"
	l.Cost = "code runs 10 to 30 times as often before it is compiled: a slower start, without an AOT cache, and a slower warm-up"
	l.Harms = []Harm{HarmStart, HarmSpeed}
	l.Rows, l.bound = []footprint.Owner{footprint.CodeCache, footprint.Malloc}, boundHot
	return l
}
