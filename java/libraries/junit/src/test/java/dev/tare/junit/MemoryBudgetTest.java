package dev.tare.junit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectMethod;
import static org.junit.platform.testkit.engine.EventConditions.event;
import static org.junit.platform.testkit.engine.EventConditions.finishedWithFailure;
import static org.junit.platform.testkit.engine.EventConditions.test;
import static org.junit.platform.testkit.engine.TestExecutionResultConditions.message;

import dev.tare.testing.JavaProgram;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.junit.platform.testkit.engine.EngineTestKit;
import org.junit.platform.testkit.engine.Events;
import org.opentest4j.AssertionFailedError;
import org.opentest4j.TestAbortedException;

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

        @MemoryBudget(retained = "90 KiB", repeats = 3)
        @Test
        void holdsInAStaticField() {
            inStaticField = new long[100 * KIB / 8];
        }

        @MemoryBudget(retained = "90 KiB", repeats = 3)
        @Test
        void holdsInAMap() {
            MAP.put("key", new long[100 * KIB / 8]);
        }

        @MemoryBudget(retained = "900 KiB", repeats = 3)
        @Test
        void holdsInAFieldOfAnotherClass() {
            Elsewhere.held = new long[1000 * KIB / 8];
        }

        @Nested
        class Inner {
            @MemoryBudget(retained = "90 KiB", repeats = 3)
            @Test
            void holdsInAFieldOfTheOuterTest() {
                held = new long[100 * KIB / 8];
            }
        }
    }

    static Object inStaticField;
    static final Map<String, Object> MAP = new HashMap<>();
    Object inField;

    static final class Elsewhere {
        static volatile Object held;
    }

    @ParameterizedTest
    @ValueSource(strings = {"holdsInAStaticField", "holdsInAMap"})
    void seesWhatEachRunPutsInPlaceOfTheLast(String method) {
        fails(method, "retained 100.", "KiB  long[]");
    }

    @Test
    void seesWhatAnotherClassHolds() {
        fails("holdsInAFieldOfAnotherClass", "retained 1", "the first run left", "KiB  long[]");
    }

    @Test
    void seesWhatTheOuterTestHolds() {
        fails(EngineTestKit.engine("junit-jupiter").selectors(selectClass(Budgeted.Inner.class)).execute().testEvents(),
                "retained 100.", "KiB  long[]");
    }

    @Test
    void measuresWhatGoesIntoFieldsAndCollections() throws Exception {
        Map<String, Object> map = new HashMap<>();
        Object[] array = new Object[1];
        AtomicReference<Object> reference = new AtomicReference<>();
        for (Callable<?> code : Arrays.<Callable<?>>asList(
                () -> inField = new byte[1000 * KIB],
                () -> inStaticField = new byte[1000 * KIB],
                () -> map.put("key", new byte[1000 * KIB]),
                () -> array[0] = new byte[1000 * KIB],
                () -> {
                    reference.set(new byte[1000 * KIB]);
                    return null;
                })) {
            Callable<?> nothingReturned = () -> {
                code.call();
                return null;
            };
            assertEquals(1000 * KIB, Memory.of(code).retained(), 5.0 * KIB);
            assertEquals(1000 * KIB, Memory.of(nothingReturned).retained(), 5.0 * KIB);
        }
    }

    private static Events run(String method) {
        return EngineTestKit.engine("junit-jupiter").selectors(selectMethod(Budgeted.class, method)).execute().testEvents();
    }

    private static void fails(String method, String... texts) {
        fails(run(method), texts);
    }

    private static void fails(Events events, String... texts) {
        events.assertThatEvents().haveExactly(1, event(test(), finishedWithFailure(message(said -> {
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

    /** Measures in a JVM that cannot. */
    static final class Unmeasurable {
        public static void main(String[] args) throws Exception {
            try {
                Memory.of(() -> null);
            } catch (TestAbortedException | AssertionFailedError e) {
                System.out.println(e.getClass().getSimpleName() + ": " + e.getMessage());
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"fail, AssertionFailedError", "skip, TestAbortedException"})
    void whatCannotBeMeasuredFailsUnlessTheUserSkipsIt(String choice, String thrown) throws Exception {
        try (JavaProgram program = JavaProgram.start(Map.of(), "-XX:+DisableExplicitGC", "-Ddev.tare.junit.unmeasurable=" + choice,
                Unmeasurable.class.getName())) {
            assertEquals(0, program.exitCode(), program.errors());
            assertTrue(program.output().startsWith(thrown + ": memory cannot be measured: System.gc() does not collect"), program.output());
        }
    }

    /** Run in parallel by JUnit inside of the test below. */
    @Execution(ExecutionMode.CONCURRENT)
    static class Parallel {
        static final AtomicInteger RUNNING = new AtomicInteger();
        static final AtomicBoolean OVERLAP = new AtomicBoolean();

        @MemoryBudget(retained = "1 KiB", repeats = 1)
        @Test
        void budgeted() {
            OVERLAP.compareAndSet(false, RUNNING.incrementAndGet() > 1);
            RUNNING.decrementAndGet();
        }

        @RepeatedTest(50)
        void other() {
            RUNNING.incrementAndGet();
            for (int i = 0; i < 50_000 && !OVERLAP.get(); i++) {
                escape = new byte[KIB];
                Thread.yield();
            }
            RUNNING.decrementAndGet();
        }
    }

    @Test
    void aBudgetIsMeasuredAlone() {
        EngineTestKit.engine("junit-jupiter").selectors(selectClass(Parallel.class))
                .configurationParameter("junit.jupiter.execution.parallel.enabled", "true")
                .configurationParameter("junit.jupiter.execution.parallel.config.strategy", "fixed")
                .configurationParameter("junit.jupiter.execution.parallel.config.fixed.parallelism", "4")
                .execute().testEvents().assertStatistics(stats -> stats.succeeded(51).failed(0));
        assertFalse(Parallel.OVERLAP.get());
    }

    /** Lines for {@code tare check}: of a test that fails too, and of each invocation of one that has several. */
    @Test
    void appendsResults(@TempDir Path dir) throws Exception {
        Path file = dir.resolve("new").resolve("results.jsonl");
        System.setProperty("dev.tare.junit.results", file.toString());
        try {
            run("within");
            run("holdsTooMuch");
            EngineTestKit.engine("junit-jupiter").selectors(selectClass(Invoked.class)).execute();
        } finally {
            System.clearProperty("dev.tare.junit.results");
        }
        List<String> lines = Files.readAllLines(file, StandardCharsets.UTF_8);
        assertEquals(3, lines.size());
        String budgeted = Pattern.quote(Budgeted.class.getName());
        assertTrue(lines.get(0).matches("\\{\"schema\":\"tare.junit/1\",\"timeMillis\":\\d+,\"test\":\"" + budgeted + "[.]within\",\"jdk\":\"[^\"]+\","
                + "\"retained\":10\\d{4},\"allocated\":10\\d{4}}"), lines.get(0));
        assertTrue(lines.get(1).contains(".holdsTooMuch\""), lines.get(1));
        assertTrue(lines.get(2).contains("$Invoked.holds([1] a \\u0022)\""), lines.get(2));
    }

    /** Run by JUnit inside of the test above. */
    static class Invoked {
        Object held;

        @MemoryBudget(retained = "9 KiB", repeats = 1)
        @ParameterizedTest
        @ValueSource(strings = "a \"")
        void holds(String text) {
            held = text;
        }
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
