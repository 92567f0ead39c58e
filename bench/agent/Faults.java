import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Arrays;

/**
 * Maps memory, touches each of its pages, and unmaps it, for as many milliseconds as each line of
 * the standard input says. Then it writes one line: pages touched, the longest and the 99.9th
 * percentile of a touch, and the longest mmap or munmap, in nanoseconds.
 */
public final class Faults {
    private static final long SIZE = 64 << 20;
    private static final long PAGE = 4096;

    public static void main(String[] args) throws Throwable {
        Linker linker = Linker.nativeLinker();
        MethodHandle mmap = handle(linker, "mmap", ValueLayout.ADDRESS, ValueLayout.ADDRESS, ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG);
        MethodHandle munmap = handle(linker, "munmap", ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.JAVA_LONG);
        MethodHandle madvise = handle(linker, "madvise", ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT);
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        int[] touches = new int[16 << 20];
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            long end = System.nanoTime() + Long.parseLong(line.strip()) * 1_000_000;
            int n = 0;
            long mapping = 0;
            while (System.nanoTime() < end && n + SIZE / PAGE <= touches.length) {
                long before = System.nanoTime();
                MemorySegment got = (MemorySegment) mmap.invokeExact(MemorySegment.NULL, SIZE, 3, 0x22, -1, 0L);
                mapping = Math.max(mapping, System.nanoTime() - before);
                int advised = (int) madvise.invokeExact(got, SIZE, 15); // MADV_NOHUGEPAGE
                MemorySegment memory = got.reinterpret(SIZE);
                for (long at = 0; at < SIZE; at += PAGE) {
                    long touched = System.nanoTime();
                    memory.set(ValueLayout.JAVA_BYTE, at, (byte) 1);
                    touches[n++] = (int) Math.min(Integer.MAX_VALUE, System.nanoTime() - touched);
                }
                int unmapped = (int) munmap.invokeExact(got, SIZE);
                // Giving 64 MiB of pages back takes some milliseconds by itself: its time is in the throughput.
                if (unmapped != 0 || advised != 0) {
                    throw new IllegalStateException("munmap " + unmapped + ", madvise " + advised);
                }
            }
            Arrays.sort(touches, 0, n);
            System.out.println("touches " + n + " longest " + touches[n - 1] + " p999 " + touches[(int) (n * 0.999)] + " mmap " + mapping);
        }
    }

    private static MethodHandle handle(Linker linker, String name, MemoryLayout result, MemoryLayout... arguments) {
        return linker.downcallHandle(linker.defaultLookup().find(name).orElseThrow(), FunctionDescriptor.of(result, arguments));
    }
}
