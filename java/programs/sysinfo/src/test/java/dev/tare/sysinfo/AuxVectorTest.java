package dev.tare.sysinfo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Random;
import org.junit.jupiter.api.Test;

class AuxVectorTest {
    /** Recorded on x86-64, Linux 6.1: AT_SYSINFO_EHDR, AT_HWCAP, AT_PAGESZ, AT_CLKTCK, AT_PHNUM, AT_NULL. */
    private static final byte[] X86_64 = HexFormat.of().parseHex(
            "21000000000000000030fef7ff7f0000" + "1000000000000000fffbeb1f00000000"
            + "06000000000000000010000000000000" + "11000000000000006400000000000000"
            + "05000000000000000d00000000000000" + "00000000000000000000000000000000");

    @Test
    void littleEndian64Bit() throws IOException {
        AuxVector vector = AuxVector.parse(X86_64, 8, ByteOrder.LITTLE_ENDIAN);
        assertEquals(4096, vector.pageBytes);
        assertEquals(100, vector.ticksPerSecond);
    }

    @Test
    void littleEndian32BitWith64KibPages() throws IOException {
        byte[] arm = HexFormat.of().parseHex("0600000000000100" + "1100000064000000" + "0000000000000000");
        AuxVector vector = AuxVector.parse(arm, 4, ByteOrder.LITTLE_ENDIAN);
        assertEquals(65536, vector.pageBytes);
        assertEquals(100, vector.ticksPerSecond);
    }

    @Test
    void bigEndian64Bit() throws IOException {
        byte[] s390 = HexFormat.of().parseHex(
                "00000000000000060000000000001000" + "000000000000001100000000000003e8" + "00000000000000000000000000000000");
        assertEquals(1000, AuxVector.parse(s390, 8, ByteOrder.BIG_ENDIAN).ticksPerSecond);
    }

    @Test
    void theWrongWordSizeOrOrderIsAnError() {
        assertThrows(IOException.class, () -> AuxVector.parse(X86_64, 4, ByteOrder.LITTLE_ENDIAN));
        assertThrows(IOException.class, () -> AuxVector.parse(X86_64, 8, ByteOrder.BIG_ENDIAN));
    }

    @Test
    void aVectorCutOffIsAnError() {
        for (int length = 0; length < X86_64.length; length++) {
            byte[] cut = java.util.Arrays.copyOf(X86_64, length);
            assertThrows(IOException.class, () -> AuxVector.parse(cut, 8, ByteOrder.LITTLE_ENDIAN));
        }
    }

    @Test
    void anyBytesAreAnErrorOrBelievable() {
        Random random = new Random(1);
        for (int i = 0; i < 20_000; i++) {
            byte[] bytes = X86_64.clone();
            for (int flips = random.nextInt(4); flips >= 0; flips--) {
                bytes[random.nextInt(bytes.length)] = (byte) random.nextInt();
            }
            try {
                AuxVector vector = AuxVector.parse(bytes, 8, ByteOrder.LITTLE_ENDIAN);
                assertTrue(vector.pageBytes >= 1024 && Long.bitCount(vector.pageBytes) == 1);
                assertTrue(vector.ticksPerSecond > 0);
            } catch (IOException refused) {
                assertTrue(refused.getMessage().startsWith("/proc/self/auxv: "));
            }
        }
    }

    @Test
    void thisMachineTellsWhatGetconfTells() throws Exception {
        AuxVector vector = AuxVector.read(new ProcFs(Path.of("/")));
        assertEquals(getconf("PAGESIZE"), vector.pageBytes);
        assertEquals(getconf("CLK_TCK"), vector.ticksPerSecond);
    }

    private static long getconf(String name) throws Exception {
        Process process = new ProcessBuilder("getconf", name).start();
        return Long.parseLong(new String(process.getInputStream().readAllBytes()).trim());
    }
}
