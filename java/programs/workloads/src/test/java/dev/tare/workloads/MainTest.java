package dev.tare.workloads;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.tare.testing.JavaProgram;
import java.util.Map;
import org.junit.jupiter.api.Test;

class MainTest {
    private static final String MAIN = "dev.tare.workloads.Main";

    @Test
    void listsTheWorkloadsWithTheirArguments() throws Exception {
        try (JavaProgram none = JavaProgram.start(Map.of(), MAIN); JavaProgram help = JavaProgram.start(Map.of(), MAIN, "--help")) {
            assertEquals(2, none.exitCode());
            assertEquals(0, help.exitCode());
            assertEquals(none.errors(), help.output());
            assertTrue(help.output().contains("\nmemory-filler THREADS HEAP_KB FRAMES"), help.output());
            assertTrue(help.output().contains("\nverdict MODE PORT"), help.output());
        }
    }

    @Test
    void anUnknownWorkloadIsSaidInOneLine() throws Exception {
        try (JavaProgram program = JavaProgram.start(Map.of(), MAIN, "no\nsuch")) {
            assertEquals(2, program.exitCode());
            assertEquals("workloads: no workload is named 'no?such': run without arguments for the list\n", program.errors());
        }
    }

    @Test
    void theProcessIdIsTheKernels() {
        assertEquals(ProcessHandle.current().pid(), ProcessId.get());
    }
}
