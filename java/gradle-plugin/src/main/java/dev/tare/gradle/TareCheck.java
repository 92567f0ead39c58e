package dev.tare.gradle;

import dev.tare.check.BudgetException;
import dev.tare.check.MemoryCheck;
import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.gradle.api.DefaultTask;
import org.gradle.api.GradleException;
import org.gradle.api.tasks.Internal;
import org.gradle.api.tasks.TaskAction;

/**
 * Fails the build if the program does not keep its memory budget, by the program {@code tare}. It declares no inputs
 * and outputs, for it measures: an earlier measurement is never up to date.
 */
public class TareCheck extends DefaultTask {
    private File budget;
    private File reports;
    private String base;
    private String program;
    private List<String> arguments = new ArrayList<>();
    private boolean failOnNotKnown = true;

    /** The budget: {@code tare.budget.yaml} of the project. */
    @Internal
    public File getBudget() {
        return budget;
    }

    /** Sets the budget. */
    public void setBudget(File file) {
        budget = file;
    }

    /** The folder of the reports: {@code tare} in that of the build. */
    @Internal
    public File getReports() {
        return reports;
    }

    /** Sets the folder of the reports. */
    public void setReports(File folder) {
        reports = folder;
    }

    /** What growth is measured against, a git reference, a result or an image: the property tare.base. */
    @Internal
    public String getBase() {
        return base;
    }

    /** Sets what growth is measured against. */
    public void setBase(String value) {
        base = value;
    }

    /** The program tare: the property tare.program, or the one on PATH. */
    @Internal
    public String getProgram() {
        return program;
    }

    /** Sets the path of the program tare. */
    public void setProgram(String path) {
        program = path;
    }

    /** Further arguments of tare check. */
    @Internal
    public List<String> getArguments() {
        return arguments;
    }

    /** Sets further arguments of tare check. */
    public void setArguments(List<String> values) {
        arguments = values;
    }

    /** Whether the build fails too where the machine is too noisy to tell, as it does by default. */
    @Internal
    public boolean isFailOnNotKnown() {
        return failOnNotKnown;
    }

    /** Sets whether the build fails where the machine is too noisy to tell. */
    public void setFailOnNotKnown(boolean fail) {
        failOnNotKnown = fail;
    }

    /** Checks. */
    @TaskAction
    public void check() {
        try {
            new MemoryCheck(budget, reports).program(program).base(base).arguments(arguments).failOnNotKnown(failOnNotKnown).run(getLogger()::lifecycle);
        } catch (BudgetException | IOException e) {
            throw new GradleException(e.getMessage(), e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new GradleException("the memory check was interrupted", e);
        }
    }
}
