package dev.tare.sysinfo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import org.junit.jupiter.api.Test;

class MemInfoTest {
    @Test
    void kibByName() throws IOException {
        MemInfo info = MemInfo.parse("MemTotal:         226472 kB\nMemFree:           12332 kB\nMemAvailable:      76104 kB\n"
                + "Active(anon):      1024 kB\nHugePages_Total:       3\nSomethingNew: maybe\n");
        assertEquals(226472, info.kib("MemTotal"));
        assertEquals(76104, info.kib("MemAvailable"));
        assertEquals(1024, info.kib("Active(anon)"));
        assertNull(info.kib("HugePages_Total"), "a count of pages is not memory");
        assertNull(info.kib("SomethingNew"));
    }

    @Test
    void anOldKernelDoesNotTellWhatIsAvailable() throws IOException {
        assertNull(MemInfo.parse("MemTotal: 1024 kB\n").kib("MemAvailable"));
    }

    @Test
    void withoutTheTotalItIsNotMeminfo() {
        assertThrows(IOException.class, () -> MemInfo.parse(""));
        assertThrows(IOException.class, () -> MemInfo.parse("MemTotal: lots\n"));
        assertThrows(IOException.class, () -> MemInfo.parse("MemTotal: 99999999999999999999 kB\n"));
    }
}
