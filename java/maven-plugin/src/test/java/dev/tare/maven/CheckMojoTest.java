package dev.tare.maven;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.maven.plugin.MojoExecutionException;
import org.apache.maven.plugin.MojoFailureException;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A program of one line stands for tare: whole builds are in the tests of the release. */
class CheckMojoTest {
    @TempDir
    Path dir;
    private final CheckMojo mojo = new CheckMojo();

    @BeforeEach
    void setUp() {
        mojo.budget = dir.resolve("tare.budget.yaml").toFile();
        mojo.reports = dir.resolve("reports").toFile();
        mojo.program = dir.resolve("program").toString();
    }

    private void program(String line) throws Exception {
        Files.write(dir.resolve("program"), Arrays.asList("#!/bin/sh", line));
        assertEquals(true, dir.resolve("program").toFile().setExecutable(true));
    }

    @Test
    void tellsFailuresFromErrors() throws Exception {
        program("exit 0");
        mojo.execute();
        program("exit 7");
        assertThrows(MojoFailureException.class, mojo::execute);
        program("exit 8");
        assertThrows(MojoFailureException.class, mojo::execute);
        mojo.failOnNotKnown = false;
        mojo.execute();
        program("exit 2");
        assertThrows(MojoExecutionException.class, mojo::execute);
    }

    @Test
    void skips() throws Exception {
        program("exit 7");
        mojo.skip = true;
        mojo.execute();
        assertFalse(Files.exists(dir.resolve("reports")));
    }
}
