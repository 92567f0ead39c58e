package dev.tare.workloads;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.tare.testing.JavaProgram;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ThreadStormTest {
    private static JavaProgram start(String... arguments) {
        String[] all = new String[arguments.length + 2];
        all[0] = "dev.tare.workloads.Main";
        all[1] = "thread-storm";
        System.arraycopy(arguments, 0, all, 2, arguments.length);
        return JavaProgram.start(Map.of(), all);
    }

    /** The kernel's names of the storm's threads. */
    private static Set<String> threads(JavaProgram storm) throws Exception {
        try (var tasks = Files.list(Path.of("/proc/" + storm.pid() + "/task"))) {
            return tasks.map(task -> name(task)).filter(name -> name.startsWith("storm-")).collect(Collectors.toSet());
        }
    }

    private static String name(Path task) {
        try {
            return Files.readString(task.resolve("comm")).trim();
        } catch (java.io.IOException e) {
            return ""; // it has ended meanwhile
        }
    }

    @Test
    void keepsThreadsThatAreToStay() throws Exception {
        try (JavaProgram storm = start("30", "0", "0")) {
            storm.await("(?m)^ready$");
            assertEquals(30, threads(storm).size());
            assertEquals("" + storm.pid(), storm.await("(?m)^pid (\\d+)$"));
        }
    }

    @Test
    void replacesThreadsThatEnd() throws Exception {
        try (JavaProgram storm = start("5", "100", "20")) {
            storm.await("(?m)^ready$");
            long deadline = System.nanoTime() + 60_000_000_000L;
            while (threads(storm).stream().noneMatch(name -> Integer.parseInt(name.substring("storm-".length())) > 20)) {
                assertTrue(System.nanoTime() < deadline, "no thread was replaced");
                assertTrue(storm.isAlive());
            }
            assertTrue(threads(storm).size() <= 6, threads(storm).toString());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "1", "1 1", "0 1 1", "1 -1 1", "1 1 x", "1 1 1 1"})
    void unusableArgumentsAreRefused(String arguments) throws Exception {
        try (JavaProgram storm = start(arguments.isEmpty() ? new String[0] : arguments.split(" "))) {
            assertEquals(2, storm.exitCode());
            assertTrue(storm.errors().startsWith("thread-storm: "), storm.errors());
        }
    }
}
