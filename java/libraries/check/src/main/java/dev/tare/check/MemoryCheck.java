package dev.tare.check;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * One run of {@code tare check} with a budget. It leaves {@code check.json}, which a later check takes as its base,
 * {@code check.md}, {@code TEST-tare.xml}, in which each bound is a test as JUnit writes it, and {@code check.log}.
 */
public final class MemoryCheck {
    /** Set in the environment of a check: a build that the check starts makes no check of its own. */
    static final String RUNNING = "TARE_CHECK_RUNNING";
    private static final String INSTALL = "install it, https://tare.dev/tare/docs/install.md, or set tare.program to where it is";
    // Exit codes of tare check: docs/check.md.
    private static final int OVER_BUDGET = 7;
    private static final int NOT_KNOWN = 8;
    /** How long tare may take to remove what it made. */
    private static final int ENDING_SECONDS = 60;

    private final File budget;
    private final File reports;
    private String program = "";
    private String base = "";
    private List<String> arguments = Collections.emptyList();
    private boolean failOnNotKnown = true;

    /**
     * Prepares a check.
     *
     * @param budget the budget file; the check runs in its folder
     * @param reports the folder that the results are written to; it is made
     */
    public MemoryCheck(File budget, File reports) {
        this.budget = budget.getAbsoluteFile();
        this.reports = reports.getAbsoluteFile();
    }

    /** The program tare, a path; null or empty: the one on PATH. */
    public MemoryCheck program(String path) {
        program = path == null ? "" : path;
        return this;
    }

    /** What growth is measured against, as {@code --base} takes it; null or empty: nothing. */
    public MemoryCheck base(String value) {
        base = value == null ? "" : value;
        return this;
    }

    /** Further arguments of {@code tare check}; null: none. */
    public MemoryCheck arguments(List<String> values) {
        arguments = values == null ? Collections.<String>emptyList() : values;
        return this;
    }

    /** Whether it is a failure that a bound is not known to hold, as it is by default. */
    public MemoryCheck failOnNotKnown(boolean fail) {
        failOnNotKnown = fail;
        return this;
    }

    /**
     * Checks, one at a time in this JVM, for checks disturb each other's measurements.
     *
     * @param log takes each line that tare prints
     * @throws BudgetException if a bound fails, or is not known and that is a failure
     * @throws IOException if tare is not there, or ends without a verdict
     * @throws InterruptedException if this thread was interrupted; tare is ended
     */
    public void run(Consumer<String> log) throws BudgetException, IOException, InterruptedException {
        if (System.getenv(RUNNING) != null) {
            log.accept("no memory check: this build is part of one");
            return;
        }
        synchronized (MemoryCheck.class) {
            judge(start(log), log);
        }
    }

    private void judge(int code, Consumer<String> log) throws BudgetException, IOException {
        switch (code) {
            case 0:
                return;
            case OVER_BUDGET:
                throw new BudgetException("the memory budget " + budget + " is not kept: see above, or " + report("check.md"));
            case NOT_KNOWN:
                String message = "it is not known whether the memory budget " + budget + " is kept: see above, or " + report("check.md");
                if (failOnNotKnown) {
                    throw new BudgetException(message);
                }
                log.accept("warning: " + message);
                return;
            default:
                throw new IOException("tare check ended without a verdict, with code " + code + ": see what it says above");
        }
    }

    private int start(Consumer<String> log) throws IOException, InterruptedException {
        Files.createDirectories(reports.toPath());
        ProcessBuilder builder = new ProcessBuilder(command()).directory(budget.getParentFile()).redirectErrorStream(true)
                .redirectInput(new File("/dev/null"));
        builder.environment().put(RUNNING, "true");
        // To a file and not by a pipe, which Process.destroy closes: tare would end at its next word, before it has
        // removed what it made.
        File said = new File(reports, "check.log");
        builder.redirectOutput(said);
        Process process = builder.start();
        try (InputStream in = Files.newInputStream(said.toPath())) {
            ByteArrayOutputStream line = new ByteArrayOutputStream();
            boolean ended;
            do {
                ended = process.waitFor(100, TimeUnit.MILLISECONDS);
                copy(in, line, log);
            } while (!ended);
            return process.exitValue();
        } catch (InterruptedException e) {
            process.destroy();
            process.waitFor(ENDING_SECONDS, TimeUnit.SECONDS);
            throw e;
        } finally {
            process.destroyForcibly();
        }
    }

    /** Hands on the lines that were written since the last call; the begin of one that is not whole stays in line. */
    private static void copy(InputStream in, ByteArrayOutputStream line, Consumer<String> log) throws IOException {
        byte[] buffer = new byte[8192];
        for (int n = in.read(buffer); n > 0; n = in.read(buffer)) {
            for (int i = 0; i < n; i++) {
                if (buffer[i] == '\n') {
                    log.accept(new String(line.toByteArray(), StandardCharsets.UTF_8));
                    line.reset();
                } else {
                    line.write(buffer[i]);
                }
            }
        }
    }

    private List<String> command() throws IOException {
        List<String> command = new ArrayList<>(Arrays.asList(find(), "check", "--budget", budget.getPath(),
                "--result", report("check.json"), "--report", report("check.md"), "--report", report("TEST-tare.xml")));
        if (!base.isEmpty()) {
            command.addAll(Arrays.asList("--base", base));
        }
        command.addAll(arguments);
        return command;
    }

    private String report(String name) {
        return new File(reports, name).getPath();
    }

    private String find() throws IOException {
        if (!program.isEmpty()) {
            if (!isProgram(new File(program))) {
                throw new IOException("tare.program: " + program + " is no program: " + INSTALL);
            }
            return new File(program).getAbsolutePath();
        }
        for (String folder : String.valueOf(System.getenv("PATH")).split(File.pathSeparator)) {
            File file = new File(folder, "tare");
            if (isProgram(file)) {
                return file.getAbsolutePath();
            }
        }
        throw new IOException("tare is not on PATH: " + INSTALL);
    }

    private static boolean isProgram(File file) {
        return file.isFile() && file.canExecute();
    }
}
