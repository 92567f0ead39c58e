package dev.tare.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.junit.jupiter.api.Test;

class JavaProgramTest {
    /** Says what it was given, and what it is told until there is no more. */
    static final class Echo {
        public static void main(String[] args) throws IOException {
            System.err.println("on the side");
            System.out.println(args[0] + " " + System.getenv("GREETED"));
            System.out.write(System.in.readAllBytes());
            System.out.flush();
            System.exit(3);
        }
    }

    private static JavaProgram echo() {
        return JavaProgram.start(Map.of("GREETED", "world"), Echo.class.getName(), "hello");
    }

    @Test
    void whatAProgramSaysAndHowItEnds() throws Exception {
        try (JavaProgram program = echo()) {
            assertEquals("world", program.await("(?m)^hello (\\w+)$"));
            assertTrue(program.isAlive());
            assertTrue(program.anonymousKib() > 1024, "a JVM in less than 1 MiB");
            program.type("typed\n");
            program.closeInput();
            assertEquals(3, program.exitCode());
            assertEquals("hello world\ntyped\n", program.output());
            assertEquals("on the side\n", program.errors());
        }
    }

    @Test
    void waitingEndsWithTheProgram() throws Exception {
        try (JavaProgram program = echo()) {
            program.closeInput();
            String said = assertThrows(AssertionError.class, () -> program.await("never")).getMessage();
            assertTrue(said.contains("'never'") && said.contains("hello world\n"), said);
        }
    }

    @Test
    void sigtermAndCloseEndIt() throws Exception {
        try (JavaProgram program = echo()) {
            program.await("hello");
            program.terminate();
            assertEquals(128 + 15, program.exitCode());
        }
        JavaProgram program = echo();
        program.close();
        assertFalse(program.isAlive());
    }
}
