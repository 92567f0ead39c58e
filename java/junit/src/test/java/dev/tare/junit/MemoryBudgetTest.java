package dev.tare.junit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectMethod;
import static org.junit.platform.testkit.engine.EventConditions.event;
import static org.junit.platform.testkit.engine.EventConditions.finishedWithFailure;
import static org.junit.platform.testkit.engine.EventConditions.test;
import static org.junit.platform.testkit.engine.TestExecutionResultConditions.message;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.junit.platform.testkit.engine.EngineTestKit;
import org.junit.platform.testkit.engine.Events;
import org.opentest4j.AssertionFailedError;

class MemoryBudgetTest {
    private static final int KIB = 1 << 10;
    private static volatile Object escape;
    private static final List<Object> leak = new ArrayList<>();

    /** Run by JUnit inside of the tests below. */
    static class Budgeted {
        Object held;
        Object kept = "set before the test";

        @MemoryBudget(retained = "110 KiB", allocated = "110 KiB/op", repeats = 3)
        @Test
        void within() {
            assertEquals("set before the test", kept);
            held = new byte[100 * KIB];
            kept = held;
        }

        @MemoryBudget(retained = "90 KiB", repeats = 3)
        @Test
        void holdsTooMuch() {
            held = new long[100 * KIB / 8];
        }

        @MemoryBudget(allocated = "90 KiB/op", operations = 2, repeats = 3)
        @Test
        void allocatesTooMuch() {
            escape = new byte[100 * KIB];
            escape = new byte[100 * KIB];
            escape = null;
        }

        @MemoryBudget(retained = "1 KiB", repeats = 3)
        @Test
        void leaksIntoAStaticList() {
            leak.add(new int[KIB]);
        }

        @MemoryBudget(retained = "1 MB")
        @Test
        void wrongUnit() {
            held = null;
        }
    }

    private static Events run(String method) {
        return EngineTestKit.engine("junit-jupiter").selectors(selectMethod(Budgeted.class, method)).execute().testEvents();
    }

    private static void fails(String method, String... texts) {
        run(method).assertThatEvents().haveExactly(1, event(test(), finishedWithFailure(message(said -> {
            for (String text : texts) {
                assertTrue(said.contains(text), said);
            }
            return true;
        }))));
    }

    @Test
    void passes() {
        run("within").assertStatistics(stats -> stats.succeeded(1).failed(0));
    }

    @Test
    void namesWhatGrew() {
        fails("holdsTooMuch", "retained 100.", " KiB (", "median of 3 runs), the budget is 90 KiB; what grew:\n  100.", "KiB  long[]");
    }

    @Test
    void saysWhatIsAllocated() {
        fails("allocatesTooMuch", "allocated 100.", " KiB/op", "the budget is 90 KiB/op");
    }

    @Test
    void seesALeak() {
        fails("leaksIntoAStaticList", "int[]");
    }

    @Test
    void refusesWrongUnits() {
        fails("wrongUnit", "retained = \"1 MB\" is not a size: write \"2 MiB\"");
    }

    @Test
    void measuresInsideATest() throws Exception {
        Memory memory = Memory.of(() -> new byte[1000 * KIB]);
        assertEquals(1000 * KIB, memory.retained(), 5.0 * KIB);
        assertEquals(1000 * KIB, memory.allocated(), 5.0 * KIB);
        memory.assertRetained("1 MiB").assertAllocated("1 MiB/op");
        assertThrows(AssertionFailedError.class, () -> memory.assertRetained("0.9 MiB"));
        assertEquals(0, Memory.of(() -> null).retained(), 5.0 * KIB);
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "2", "2MB", "-1 B", "1e3 B", "1.2345 MiB", "9999999999 B", " 1 B"})
    void refusesWhatIsNoSize(String text) {
        assertThrows(IllegalArgumentException.class, () -> Bytes.parse("retained", text, ""));
    }

    @Test
    void readsAndWritesSizes() {
        assertEquals(2 << 20, Bytes.parse("retained", "2 MiB", ""));
        assertEquals(1536, Bytes.parse("retained", "1.5KiB", ""));
        assertEquals(10, Bytes.parse("allocated", "10 B/op", "/op"));
        assertEquals("512 B", Bytes.format(512));
        assertEquals("100.0 KiB", Bytes.format(100 * KIB));
        assertEquals("20.0 MiB", Bytes.format(20 << 20));
    }
}
