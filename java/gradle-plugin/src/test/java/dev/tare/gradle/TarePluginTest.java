package dev.tare.gradle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.gradle.api.GradleException;
import org.gradle.api.Project;
import org.gradle.testfixtures.ProjectBuilder;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The plugin in a project of the Gradle that it is compiled with; a program of one line stands for tare. */
class TarePluginTest {
    @TempDir
    Path dir;

    @Test
    void addsTheTask() throws Exception {
        Project project = ProjectBuilder.builder().withProjectDir(dir.toFile()).withGradleUserHomeDir(dir.resolve("home").toFile()).build();
        project.getPluginManager().apply("dev.tare");
        TareCheck task = (TareCheck) project.getTasks().getByName("tareCheck");
        assertEquals(dir.resolve("tare.budget.yaml").toFile().getCanonicalFile(), task.getBudget());
        assertEquals(dir.resolve("build/tare").toFile().getCanonicalFile(), task.getReports());
        project.getPluginManager().apply("base");
        assertTrue(task.getDependsOn().contains("assemble"));
        Path program = dir.resolve("program");
        task.setProgram(program.toString());
        for (int code : new int[] {0, 7, 8, 2}) {
            Files.write(program, Arrays.asList("#!/bin/sh", "exit " + code));
            assertTrue(program.toFile().setExecutable(true));
            task.setFailOnNotKnown(true);
            if (code == 0) {
                task.check();
            } else {
                assertThrows(GradleException.class, task::check);
            }
            task.setFailOnNotKnown(false);
            if (code == 8) {
                task.check();
            }
        }
    }
}
