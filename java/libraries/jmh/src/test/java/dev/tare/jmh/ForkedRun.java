package dev.tare.jmh;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.openjdk.jmh.results.Result;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.options.ChainedOptionsBuilder;
import org.openjdk.jmh.runner.options.CommandLineOptions;
import org.openjdk.jmh.runner.options.OptionsBuilder;

/** One benchmark of {@link KnownTruth}, run by JMH in a JVM of its own. */
final class ForkedRun {
    private final String benchmark;
    private final List<String> options = new ArrayList<>(Arrays.asList("-Xmx768m"));
    private final List<String> profilers = new ArrayList<>();
    private String java;
    private int forks = 1;
    private String output = "";

    private ForkedRun(String benchmark) {
        this.benchmark = benchmark;
    }

    static ForkedRun of(String benchmark) {
        return new ForkedRun(benchmark);
    }

    ForkedRun jvm(int major, String... jvmOptions) {
        java = Jdks.java(major);
        options.addAll(Arrays.asList(jvmOptions));
        return this;
    }

    /** A collector by the name in its option, Use NAME GC, and further options behind it. */
    ForkedRun collector(String collector) {
        String[] words = collector.split(" ");
        options.add("-XX:+Use" + words[0] + "GC");
        options.addAll(Arrays.asList(words).subList(1, words.length));
        return this;
    }

    ForkedRun forks(int number) {
        forks = number;
        return this;
    }

    ForkedRun profilers(Class<?>... classes) {
        for (Class<?> profiler : classes) {
            profilers.add(profiler.getName());
        }
        return this;
    }

    ForkedRun profiler(Class<?> profiler, String profilerOptions) {
        profilers.add(profiler.getName() + ":" + profilerOptions);
        return this;
    }

    /** Runs, and gives the secondary results by label. */
    Map<String, Result<?>> results() throws Exception {
        List<String> line = new ArrayList<>();
        for (String profiler : profilers) {
            line.add("-prof");
            line.add(profiler);
        }
        ChainedOptionsBuilder builder = new OptionsBuilder().parent(new CommandLineOptions(line.toArray(new String[0])))
                .include("^" + KnownTruth.class.getName().replace(".", "\\.") + "\\." + benchmark + "$")
                .jvmArgs(options.toArray(new String[0])).shouldFailOnError(true).forks(forks);
        Collection<RunResult> runs;
        PrintStream out = System.out;
        ByteArrayOutputStream captured = new ByteArrayOutputStream();
        System.setOut(new PrintStream(captured, true, "UTF-8"));
        try {
            runs = new Runner((java == null ? builder : builder.jvm(java)).build()).run();
        } finally {
            System.setOut(out);
            output = captured.toString("UTF-8");
        }
        Map<String, Result<?>> results = new HashMap<>();
        for (RunResult run : runs) {
            run.getSecondaryResults().forEach(results::put);
        }
        return results;
    }

    /** All that JMH printed. */
    String output() {
        return output;
    }
}
