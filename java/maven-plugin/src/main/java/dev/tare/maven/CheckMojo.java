package dev.tare.maven;

import dev.tare.check.BudgetException;
import dev.tare.check.MemoryCheck;
import java.io.File;
import java.io.IOException;
import java.util.List;
import org.apache.maven.plugin.AbstractMojo;
import org.apache.maven.plugin.MojoExecutionException;
import org.apache.maven.plugin.MojoFailureException;
import org.apache.maven.plugins.annotations.LifecyclePhase;
import org.apache.maven.plugins.annotations.Mojo;
import org.apache.maven.plugins.annotations.Parameter;

/** Fails the build if the program does not keep its memory budget, by the program {@code tare}. */
@Mojo(name = "check", defaultPhase = LifecyclePhase.VERIFY, threadSafe = true)
public final class CheckMojo extends AbstractMojo {
    /** The budget. */
    @Parameter(property = "tare.budget", defaultValue = "${project.basedir}/tare.budget.yaml")
    File budget;

    /** What growth is measured against: a git reference, the result of an earlier check, or an image. */
    @Parameter(property = "tare.base")
    String base;

    /** The program tare; without it the one on PATH. */
    @Parameter(property = "tare.program")
    String program;

    /** Further arguments of tare check. */
    @Parameter(property = "tare.arguments")
    List<String> arguments;

    /** Whether the build fails too where the machine is too noisy to tell. */
    @Parameter(property = "tare.failOnNotKnown", defaultValue = "true")
    boolean failOnNotKnown = true;

    /** The folder of the reports. */
    @Parameter(property = "tare.reports", defaultValue = "${project.build.directory}/tare")
    File reports;

    /** Whether nothing is checked. */
    @Parameter(property = "tare.skip", defaultValue = "false")
    boolean skip;

    @Override
    public void execute() throws MojoExecutionException, MojoFailureException {
        if (skip) {
            getLog().info("no memory check: tare.skip is set");
            return;
        }
        try {
            new MemoryCheck(budget, reports).program(program).base(base).arguments(arguments).failOnNotKnown(failOnNotKnown).run(getLog()::info);
        } catch (BudgetException e) {
            throw new MojoFailureException(e.getMessage(), e);
        } catch (IOException e) {
            throw new MojoExecutionException(e.getMessage(), e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new MojoExecutionException("the memory check was interrupted", e);
        }
    }
}
