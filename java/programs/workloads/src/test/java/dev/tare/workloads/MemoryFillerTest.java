package dev.tare.workloads;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.tare.testing.JavaProgram;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class MemoryFillerTest {
    private static final String FILLER = "dev.tare.workloads.MemoryFiller";

    private static JavaProgram start(String... arguments) {
        return JavaProgram.start(Map.of(), arguments);
    }

    @Test
    void placesEveryThreadAndTellsItsProcessId() throws Exception {
        try (JavaProgram filler = start("-Xint", FILLER, "40", "100", "200")) {
            filler.await("(?m)^ready$");
            assertEquals("" + filler.pid(), filler.await("(?m)^pid (\\d+)$"));
            assertTrue(filler.output().contains("threads 40 of 40\n"), filler.output());
            long threads;
            try (var tasks = Files.list(Path.of("/proc/" + filler.pid() + "/task"))) {
                threads = tasks.count();
            }
            assertTrue(threads >= 40, threads + " threads");
            filler.terminate();
            assertEquals(128 + 15, filler.exitCode());
        }
    }

    @Test
    void holdsTheHeapThatWasAskedFor() throws Exception {
        try (JavaProgram filler = start(FILLER, "20", "1024", "0")) {
            filler.await("(?m)^ready$");
            long anonymous = Files.readAllLines(Path.of("/proc/" + filler.pid() + "/smaps_rollup")).stream()
                    .filter(line -> line.startsWith("Anonymous:"))
                    .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
                    .sum();
            assertTrue(anonymous > 20 * 1024, anonymous + " KiB anonymous");
        }
    }

    @Test
    void endsWithItsInputOnlyWhenAsked() throws Exception {
        try (JavaProgram asked = start("dev.tare.workloads.Main", "memory-filler", "2", "1", "1", "--until-eof");
                JavaProgram notAsked = start(FILLER, "2", "1", "1")) {
            notAsked.await("(?m)^ready$");
            notAsked.closeInput();
            asked.await("(?m)^ready$");
            asked.closeInput();
            assertEquals(0, asked.exitCode());
            assertTrue(notAsked.isAlive());
        }
    }

    @Test
    void aStackTooSmallIsSaidInOneLine() throws Exception {
        try (JavaProgram filler = start("-Xint", "-Xss512k", FILLER, "3", "1", "1000000")) {
            assertEquals(1, filler.exitCode());
            assertEquals("memory-filler: thread 1 of 3: its stack is too small for FRAMES frames: raise -Xss or lower FRAMES\n",
                    filler.errors());
        }
    }

    @Test
    void aFullHeapIsSaidInOneLine() throws Exception {
        try (JavaProgram filler = start(FILLER, "1000", "1024", "0")) {
            assertEquals(1, filler.exitCode());
            assertTrue(filler.errors().matches("memory-filler: thread \\d+ of 1000: the Java heap is full: .*\n"), filler.errors());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", "1 2", "1 2 3 4", "0 1 1", "-1 1 1", "1 -1 1", "1 1 x", "1 1 1.5", "99999999999 1 1", "1 1048577 1",
        "1 1 99999999", "1 1 +1", "1 1 1 --until"
    })
    void unusableArgumentsAreSaidInOneLine(String arguments) throws Exception {
        String[] words = (FILLER + " " + arguments).trim().split(" ");
        try (JavaProgram filler = start(words)) {
            assertEquals(2, filler.exitCode());
            assertTrue(filler.errors().matches("memory-filler: .*: give .*\n"), filler.errors());
            assertEquals("", filler.output());
        }
    }
}
