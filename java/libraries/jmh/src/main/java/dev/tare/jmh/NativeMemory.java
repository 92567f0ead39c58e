package dev.tare.jmh;

import dev.tare.memory.DiagnosticCommand;
import dev.tare.memory.UnavailableException;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.openjdk.jmh.infra.BenchmarkParams;
import org.openjdk.jmh.profile.ProfilerException;

/**
 * What the JVM committed by category of native memory tracking at the end of each iteration, {@code nmt.CATEGORY}, and
 * by how much that changed in the iteration, {@code nmt.CATEGORY.delta}. It needs
 * {@code -XX:NativeMemoryTracking=summary} in the measured JVM. Committed is not resident.
 */
public final class NativeMemory extends MemoryProfiler {
    /** All seen so far: the JVM leaves out what is below 1 KiB. */
    private final Set<String> categories = new TreeSet<>();
    private Map<String, Long> before;
    private Map<String, Long> after;

    /** For ServiceLoader, to be listed. */
    public NativeMemory() {
        super(Turn.READ);
    }

    /** For a run. */
    public NativeMemory(String options) throws ProfilerException {
        this();
        ProfilerOptions.none(NativeMemory.class, options);
        activate();
    }

    @Override
    public String getDescription() {
        return "Committed by category of native memory tracking, and its change";
    }

    private static Map<String, Long> summary() throws UnavailableException {
        // JDK 8 knows no smaller scale.
        return NmtSummary.parse(DiagnosticCommand.run("vmNativeMemory", "summary", "scale=KB"));
    }

    @Override
    void start() throws UnavailableException {
        before = null;
        before = summary();
    }

    @Override
    void end() throws UnavailableException {
        after = null;
        after = before == null ? null : summary();
    }

    @Override
    void reportState(BenchmarkParams benchmark, Collection<MemoryResult> results) {
        if (after == null) {
            return; // said when it was read
        }
        categories.addAll(before.keySet());
        categories.addAll(after.keySet());
        for (String category : categories) {
            String label = "nmt." + category.replace(" ", "");
            long now = after.getOrDefault(category, 0L);
            results.add(MemoryResult.size(label, now));
            results.add(MemoryResult.size(label + ".delta", now - before.getOrDefault(category, 0L)));
        }
    }
}
