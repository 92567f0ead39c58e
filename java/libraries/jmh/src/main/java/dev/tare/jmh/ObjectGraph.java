package dev.tare.jmh;

import dev.tare.memory.UnavailableException;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.infra.BenchmarkParams;
import org.openjdk.jmh.profile.ProfilerException;
import org.openjdk.jol.info.GraphLayout;
import org.openjdk.jol.vm.VM;

/**
 * The deep size of fields marked {@link DeepSize} after each iteration: {@code graph.CLASS.FIELD}, all that can be
 * reached from the object, and {@code graph.CLASS.FIELD.objects}, how many objects that is. It is measured by JOL, which
 * walks the graph; what is shared with others, classes and threads that are reachable included, counts in full.
 *
 * <p>JMH gives profilers no states, so they are taken from the class that JMH generates for the benchmark, which holds
 * those of {@code Scope.Benchmark} in static fields. A marked field of another scope is absent with a warning.
 */
public final class ObjectGraph extends MemoryProfiler {
    private static final int PROBE_BYTES = 4096;
    private static final int MAX_HEADER_BYTES = 32;

    /** For ServiceLoader, to be listed. */
    public ObjectGraph() {
        super(Turn.WALK);
    }

    /** For a run. */
    public ObjectGraph(String options) throws ProfilerException {
        this();
        ProfilerOptions.none(ObjectGraph.class, options);
        activate();
    }

    @Override
    public String getDescription() {
        return "Deep size of the fields marked @DeepSize, by JOL";
    }

    @Override
    void start() {
        // It looks once, afterwards.
    }

    @Override
    void reportState(BenchmarkParams benchmark, Collection<MemoryResult> results)
            throws UnavailableException {
        Map<Field, Object> holders = new LinkedHashMap<>();
        find(generatedClass(benchmark), holders);
        if (holders.isEmpty()) {
            warn("no field of " + benchmark.getBenchmark() + " that can be reached is marked @DeepSize");
        }
        for (Map.Entry<Field, Object> found : holders.entrySet()) {
            attempt(() -> measure(found.getKey(), found.getValue(), results));
        }
    }

    private static Class<?> generatedClass(BenchmarkParams benchmark) throws UnavailableException {
        String target = benchmark.generatedBenchmark(); // CLASS.METHOD
        try {
            return Class.forName(target.substring(0, Math.max(0, target.lastIndexOf('.'))));
        } catch (ClassNotFoundException e) {
            throw new UnavailableException("JMH's class for " + benchmark.getBenchmark() + " cannot be found", e);
        }
    }

    /** The marked fields of all states of a generated class, each with the object that it is read of. */
    private void find(Class<?> generated, Map<Field, Object> holders) throws UnavailableException {
        Set<Class<?>> seen = new LinkedHashSet<>();
        for (Field state : generated.getDeclaredFields()) {
            for (Class<?> type = state.getType(); type != null && type != Object.class; type = type.getSuperclass()) {
                if (type.isPrimitive() || type.getName().startsWith("org.openjdk.jmh.") || !seen.add(type)) {
                    continue;
                }
                for (Field field : type.getDeclaredFields()) {
                    if (field.isAnnotationPresent(DeepSize.class)) {
                        holder(state, type, field, holders);
                    }
                }
            }
        }
    }

    private void holder(Field state, Class<?> type, Field field, Map<Field, Object> holders) throws UnavailableException {
        if (Modifier.isStatic(field.getModifiers())) {
            holders.put(field, null);
        } else if (Modifier.isStatic(state.getModifiers()) && get(state, null) != null) {
            holders.put(field, get(state, null));
        } else {
            State scope = type.getAnnotation(State.class);
            warn(label(field) + " cannot be reached: make it static, or its state one of Scope." + Scope.Benchmark
                    + (scope == null ? "" : " instead of Scope." + scope.value()));
        }
    }

    private static void measure(Field field, Object holder, Collection<MemoryResult> results) throws UnavailableException {
        checkJol();
        Object root = get(field, holder);
        long bytes = 0;
        long objects = 0;
        if (root != null) {
            try {
                GraphLayout graph = GraphLayout.parseInstance(root);
                bytes = graph.totalSize();
                objects = graph.totalCount();
            } catch (RuntimeException | ExceptionInInitializerError | NoClassDefFoundError e) {
                throw new UnavailableException("JOL cannot walk " + label(field) + " (" + e + "): it needs"
                        + " sun.misc.Unsafe, -jvmArgsAppend --sun-misc-unsafe-memory-access=allow from JDK 24 on,"
                        + " and for records -Djol.magicFieldOffset=true", e);
            }
        }
        results.add(MemoryResult.size(label(field), bytes));
        results.add(MemoryResult.mean(label(field) + ".objects", objects, "objects"));
    }

    /** JOL guesses the layout of objects on some JVMs, and wrongly on some (generational ZGC): a known one tells. */
    private static void checkJol() throws UnavailableException {
        long size = VM.current().sizeOf(new byte[PROBE_BYTES]);
        if (size < PROBE_BYTES || size > PROBE_BYTES + MAX_HEADER_BYTES) {
            throw new UnavailableException("JOL takes an array of " + PROBE_BYTES + " bytes for one of " + size
                    + ": it misjudges this JVM");
        }
    }

    private static String label(Field field) {
        return "graph." + field.getDeclaringClass().getSimpleName() + "." + field.getName();
    }

    private static Object get(Field field, Object holder) throws UnavailableException {
        try {
            field.setAccessible(true);
            return field.get(holder);
        } catch (IllegalAccessException | RuntimeException e) {
            throw new UnavailableException(label(field) + " cannot be read: " + e, e);
        }
    }
}
