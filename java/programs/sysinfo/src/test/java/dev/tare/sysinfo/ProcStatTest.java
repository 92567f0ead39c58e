package dev.tare.sysinfo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ProcStatTest {
    private static final String AFTER_NAME = " S 1 4242 4242 0 -1 4194304 31415 0 12 0 987 65 0 0 20 0 37 0 123456 "
            + "3145728000 48211 18446744073709551615 1 1 0 0 0 0 0 4096 16800975 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

    @ParameterizedTest
    @ValueSource(strings = {"java", "my app", "a) S 9 9 (b", "(sd-pam)", ")", "", "x) R 1", "ümlaut"})
    void theNameMayContainAnything(String name) throws IOException {
        ProcStat stat = ProcStat.parse("4242 (" + name + ")" + AFTER_NAME);
        assertEquals(4242, stat.pid);
        assertEquals(name, stat.name);
        assertEquals("S", stat.state);
        assertEquals(987, stat.userTicks);
        assertEquals(65, stat.systemTicks);
        assertEquals(37, stat.threads);
        assertEquals(3145728000L, stat.virtualBytes);
        assertEquals(48211, stat.residentPages);
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "4242", "4242 (java", "4242 (java) S 1 2", "x (java) S 1", "4242 java) S 1"})
    void aLineWithoutItsFieldsIsAnError(String line) {
        assertThrows(IOException.class, () -> ProcStat.parse(line));
    }

    @Test
    void aFieldThatIsNoCountIsAnErrorThatNamesIt() {
        String line = "4242 (java)" + AFTER_NAME.replace(" 48211 ", " 48k ");
        assertEquals("/proc/self/stat: field 24 is '48k', not a count",
                assertThrows(IOException.class, () -> ProcStat.parse(line)).getMessage());
    }

    @Test
    void anyTextIsAnErrorOrHasCounts() {
        Random random = new Random(1);
        String line = "4242 (my app)" + AFTER_NAME;
        for (int i = 0; i < 20_000; i++) {
            StringBuilder text = new StringBuilder(line);
            for (int edits = random.nextInt(4); edits >= 0; edits--) {
                text.setCharAt(random.nextInt(text.length()), " ()-x9\n".charAt(random.nextInt(7)));
            }
            try {
                ProcStat stat = ProcStat.parse(text.toString());
                assertTrue(stat.userTicks >= 0 && stat.systemTicks >= 0 && stat.residentPages >= 0 && stat.pid >= 0);
            } catch (IOException refused) {
                assertTrue(refused.getMessage().startsWith("/proc/self/stat: "));
            }
        }
    }

    @Test
    void thisProcess() throws IOException {
        ProcStat stat = ProcStat.read(new ProcFs(Path.of("/")));
        assertEquals(ProcessHandle.current().pid(), stat.pid);
        assertTrue(stat.residentPages > 0 && stat.threads > 1);
    }
}
