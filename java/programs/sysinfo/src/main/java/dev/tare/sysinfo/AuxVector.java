package dev.tare.sysinfo;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The auxiliary vector that the kernel gave the process, {@code /proc/self/auxv}: pairs of native words, a type and
 * a value, up to type 0. Format and types: getauxval(3), proc(5), include/uapi/linux/auxvec.h.
 */
final class AuxVector {
    private static final int AT_NULL = 0;
    private static final int AT_PAGESZ = 6;
    private static final int AT_CLKTCK = 17;
    /** The largest page of any Linux port is 256 KiB (hexagon, powerpc). */
    private static final long MAX_PAGE_BYTES = 1 << 18;
    private static final long MAX_TICKS_PER_SECOND = 100_000;

    /** Bytes in one page: the unit of counts of pages in proc(5). */
    final long pageBytes;
    /** Clock ticks in one second: the unit of times in proc(5). */
    final long ticksPerSecond;

    private AuxVector(long pageBytes, long ticksPerSecond) {
        this.pageBytes = pageBytes;
        this.ticksPerSecond = ticksPerSecond;
    }

    /** The vector of this process. */
    static AuxVector read(ProcFs files) throws IOException {
        // The JVM's own data model, not the kernel's: a 32-bit process has 32-bit words on any kernel.
        int wordBytes = "32".equals(System.getProperty("sun.arch.data.model")) ? 4 : 8;
        return parse(files.bytes("/proc/self/auxv"), wordBytes, ByteOrder.nativeOrder());
    }

    /**
     * Parses a vector.
     *
     * @param wordBytes 4 or 8
     * @throws IOException when it is cut off, or says nothing believable about pages or ticks
     */
    static AuxVector parse(byte[] vector, int wordBytes, ByteOrder order) throws IOException {
        ByteBuffer words = ByteBuffer.wrap(vector).order(order);
        long pageBytes = 0;
        long ticksPerSecond = 0;
        while (words.remaining() >= 2 * wordBytes) {
            long type = word(words, wordBytes);
            long value = word(words, wordBytes);
            if (type == AT_NULL) {
                return checked(pageBytes, ticksPerSecond);
            } else if (type == AT_PAGESZ) {
                pageBytes = value;
            } else if (type == AT_CLKTCK) {
                ticksPerSecond = value;
            }
        }
        throw new IOException("/proc/self/auxv: no end after " + vector.length + " bytes");
    }

    private static AuxVector checked(long pageBytes, long ticksPerSecond) throws IOException {
        if (pageBytes < 1024 || pageBytes > MAX_PAGE_BYTES || Long.bitCount(pageBytes) != 1) {
            throw new IOException("/proc/self/auxv: page size " + pageBytes);
        }
        if (ticksPerSecond < 1 || ticksPerSecond > MAX_TICKS_PER_SECOND) {
            throw new IOException("/proc/self/auxv: " + ticksPerSecond + " clock ticks per second");
        }
        return new AuxVector(pageBytes, ticksPerSecond);
    }

    private static long word(ByteBuffer words, int bytes) {
        return bytes == 4 ? words.getInt() & 0xffffffffL : words.getLong();
    }
}
