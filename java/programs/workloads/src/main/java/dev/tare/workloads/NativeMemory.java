package dev.tare.workloads;

import java.io.IOException;
import java.lang.reflect.Method;

/**
 * Memory that is taken past the JVM: by libraries that the tests build, and through {@code java.lang.foreign}, which
 * JDKs from 22 on have (JEP 454).
 */
final class NativeMemory {
    private NativeMemory() {}

    /** COUNT anonymous mappings of BYTES, none directly beside another. */
    private static native long map(int count, long bytes);

    /** The same, at multiples of 2 MiB, for which the kernel is asked to take huge pages. */
    private static native long hugeMap(int count, long bytes);

    /** COUNT threads with stacks as RLIMIT_STACK says, each BYTES deep. */
    private static native long threads(int count, long bytes);

    /** COUNT goroutines, each with BYTES of Go's heap. */
    private static native long goroutines(int count, long bytes);

    /** COUNT chunks of BYTES, from a jemalloc that is linked into the library. */
    private static native long jemalloc(int count, long bytes);

    /**
     * Loads a library.
     *
     * @return the bytes that this takes as far as the rest is concerned: none
     */
    static long load(String path) throws IOException {
        try {
            System.load(path);
            return 0;
        } catch (UnsatisfiedLinkError e) {
            throw new IOException(Args.printable(path) + " cannot be loaded: give the absolute path of a native library", e);
        }
    }

    /**
     * Takes memory of a kind, and writes all of it.
     *
     * @return how many bytes that is
     * @throws IOException when it could not be taken, or nothing was loaded that can
     */
    static long take(String kind, int count, int bytes) throws Exception {
        long taken;
        try {
            taken = call(kind, count, bytes);
        } catch (UnsatisfiedLinkError e) {
            throw new IOException("no library with " + kind + " is loaded: load one with the step library FILE", e);
        } catch (ClassNotFoundException e) {
            throw new IOException("this Java has no java.lang.foreign: take JDK 22 or newer", e);
        }
        if (taken < 0) {
            throw new IOException(kind + " " + count + " " + bytes + " was not to be had: raise the limits of the process");
        }
        return taken;
    }

    private static long call(String kind, int count, int bytes) throws Exception {
        switch (kind) {
            case "map": return map(count, bytes);
            case "huge-map": return hugeMap(count, bytes);
            case "threads": return threads(count, bytes);
            case "goroutines": return goroutines(count, bytes);
            case "jemalloc": return jemalloc(count, bytes);
            case "arena": return arena(count, bytes);
            default: throw new UsageException("there is no kind of native memory " + Args.printable(kind)
                    + ": give map, huge-map, threads, goroutines, jemalloc or arena");
        }
    }

    /** COUNT segments of BYTES in one Arena that is never closed. */
    private static long arena(int count, int bytes) throws Exception {
        Class<?> type = Class.forName("java.lang.foreign.Arena");
        Object arena = type.getMethod("global").invoke(null);
        Method allocate = type.getMethod("allocate", long.class, long.class);
        Method fill = Class.forName("java.lang.foreign.MemorySegment").getMethod("fill", byte.class);
        for (int i = 0; i < count; i++) {
            fill.invoke(allocate.invoke(arena, (long) bytes, 1L), (byte) 1);
        }
        return (long) count * bytes;
    }
}
