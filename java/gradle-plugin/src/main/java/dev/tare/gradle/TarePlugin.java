package dev.tare.gradle;

import java.io.File;
import org.gradle.api.Plugin;
import org.gradle.api.Project;

/** Adds the task {@code tareCheck}, which runs after what the project assembles. */
public final class TarePlugin implements Plugin<Project> {
    @Override
    @SuppressWarnings("deprecation") // what takes the place of getBuildDir is of another type in Gradle 4
    public void apply(Project project) {
        TareCheck task = project.getTasks().create("tareCheck", TareCheck.class);
        task.setGroup("verification");
        task.setDescription("Checks whether the program keeps its memory budget.");
        task.setBudget(project.file("tare.budget.yaml"));
        task.setReports(new File(project.getBuildDir(), "tare"));
        task.setBase((String) project.findProperty("tare.base"));
        task.setProgram((String) project.findProperty("tare.program"));
        project.getPluginManager().withPlugin("base", base -> task.dependsOn("assemble"));
    }
}
