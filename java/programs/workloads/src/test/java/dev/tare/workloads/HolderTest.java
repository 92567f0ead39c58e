package dev.tare.workloads;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.tare.testing.JavaProgram;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class HolderTest {
    private static final String[] HOLDER = {"-Xint", "dev.tare.workloads.Main", "holder", "10"};

    private static JavaProgram start(String... arguments) {
        return JavaProgram.start(Map.of(), arguments);
    }

    @TempDir
    Path folder;

    @Test
    void takesWhatItIsToldToTheByte() throws Exception {
        Path file = folder.resolve("a file");
        try (JavaProgram holder = start(HOLDER)) {
            holder.await("(?m)^ready$");
            int frame = Integer.parseInt(holder.await("(?m)^frame (\\d+) bytes$"));
            holder.type("heap 100\nstacks 200\nheap 50\ndirect 300\nmalloc 40 500\nmapped 600 " + file + "\n");
            holder.await("(?m)^step 6 holds mapped 614400$");
            int frames = 200 * 1024 / frame;
            String all = "step 1 holds heap 1024000\nstep 2 holds stacks " + 10 * frames * frame
                    + "\nstep 3 holds heap 512000\nstep 4 holds direct 307200\nstep 5 holds malloc 20000\n";
            assertTrue(holder.output().contains(all), holder.output());
            assertEquals(614400, Files.size(file));
            holder.closeInput();
            assertEquals(0, holder.exitCode());
        }
    }

    /** A thread needs about a hundred KiB: what it goes deeper must show in the memory that the process has. */
    @Test
    void theStacksAreReallyWritten() throws Exception {
        try (JavaProgram holder = start(HOLDER)) {
            holder.await("(?m)^ready$");
            long before = holder.anonymousKib();
            holder.type("stacks 512\n");
            long held = Long.parseLong(holder.await("(?m)^step 1 holds stacks (\\d+)$")) / 1024;
            long grown = holder.anonymousKib() - before;
            assertTrue(Math.abs(grown - held) < held / 10, grown + " KiB grown, " + held + " KiB held");
        }
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "heap 50000 | the Java heap is full: raise -Xmx",
        "stacks 50000 | the stack of a thread is too small: raise -Xss",
        "goroutines 1 100 | no library with goroutines is loaded: load one with the step library FILE",
        "library /nowhere.so | /nowhere.so cannot be loaded: give the absolute path of a native library",
    })
    void whatDoesNotFitIsSaidInOneLine(String step, String message) throws Exception {
        try (JavaProgram holder = start(HOLDER)) {
            holder.await("(?m)^ready$");
            holder.type(step + "\n");
            assertEquals(1, holder.exitCode());
            assertEquals("holder: " + message + "\n", holder.errors());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "heap", "heap 0", "heap x", "heap 1 2", "malloc 5", "malloc 1 2000000", "mapped 5", "fly 5", "fly 5 5", "map 0 1", "map 1 x"})
    void unusableStepsAreSaidInOneLine(String step) throws Exception {
        try (JavaProgram holder = start(HOLDER)) {
            holder.type(step + "\n");
            assertEquals(2, holder.exitCode());
            assertTrue(holder.errors().matches("holder: .*: give .*\n"), holder.errors());
        }
    }
}
