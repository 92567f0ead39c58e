package dev.tare.check;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Programs of a few lines stand for tare, and end in each of its ways; tare itself is run in builds, by the tests of the release. */
class MemoryCheckTest {
    @TempDir
    Path dir;
    private final Queue<String> said = new ConcurrentLinkedQueue<>();

    private MemoryCheck check(String script) throws IOException {
        Path program = dir.resolve("program");
        Files.write(program, Arrays.asList("#!/bin/sh", script));
        assertTrue(program.toFile().setExecutable(true));
        return new MemoryCheck(dir.resolve("tare.budget.yaml").toFile(), dir.resolve("a/b").toFile()).program(program.toString());
    }

    @Test
    void passesItsArguments() throws Exception {
        check("for a; do echo \"[$a]\"; done; pwd; echo $" + MemoryCheck.RUNNING + "; cat").base("origin/main")
                .arguments(Arrays.asList("--cgroup-parent", "/a b")).run(said::add);
        String reports = dir.resolve("a/b").toString();
        assertEquals(Arrays.asList("[check]", "[--budget]", "[" + dir.resolve("tare.budget.yaml") + "]", "[--result]", "[" + reports + "/check.json]",
                "[--report]", "[" + reports + "/check.md]", "[--report]", "[" + reports + "/TEST-tare.xml]", "[--base]", "[origin/main]",
                "[--cgroup-parent]", "[/a b]", dir.toString(), "true"), Arrays.asList(said.toArray()));
        assertTrue(Files.isDirectory(dir.resolve("a/b")));
    }

    @Test
    void judgesByTheCode() throws Exception {
        check("exit 0").run(said::add);
        BudgetException over = assertThrows(BudgetException.class, () -> check("exit 7").run(said::add));
        assertTrue(over.getMessage().contains("is not kept"), over.getMessage());
        BudgetException open = assertThrows(BudgetException.class, () -> check("exit 8").run(said::add));
        assertTrue(open.getMessage().contains("not known"), open.getMessage());
        assertTrue(said.isEmpty());
        check("exit 8").failOnNotKnown(false).run(said::add);
        assertTrue(said.remove().startsWith("warning: it is not known"));
        IOException broken = assertThrows(IOException.class, () -> check("echo why >&2; exit 4").failOnNotKnown(false).run(said::add));
        assertTrue(broken.getMessage().contains("with code 4"), broken.getMessage());
        assertEquals("why", said.remove());
    }

    @Test
    void saysWhatIsMissing() throws Exception {
        MemoryCheck check = check("exit 0").program(dir.resolve("none").toString());
        IOException missing = assertThrows(IOException.class, () -> check.run(said::add));
        assertTrue(missing.getMessage().startsWith("tare.program: " + dir.resolve("none") + " is no program: install it"), missing.getMessage());
        check.program(dir.toString()); // a folder
        assertThrows(IOException.class, () -> check.run(said::add));
    }

    @Test
    void endsWhatItStarted() throws Exception {
        CountDownLatch started = new CountDownLatch(1);
        AtomicReference<Throwable> thrown = new AtomicReference<>();
        MemoryCheck check = check("trap 'echo mending; echo done >ended; exit 1' TERM; echo started; while :; do sleep 0.05; done");
        Thread thread = new Thread(() -> {
            try {
                check.run(line -> started.countDown());
            } catch (Exception e) {
                thrown.set(e);
            }
        });
        thread.start();
        assertTrue(started.await(60, TimeUnit.SECONDS));
        thread.interrupt();
        thread.join(60_000);
        assertEquals(InterruptedException.class, thrown.get().getClass());
        assertTrue(Files.exists(dir.resolve("ended")), "the program was not ended in good order");
    }
}
