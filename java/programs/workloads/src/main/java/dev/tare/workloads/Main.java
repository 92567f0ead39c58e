package dev.tare.workloads;

import java.io.PrintStream;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * Picks a workload by name.
 *
 * <p>Exit codes: 0 done or help asked for, 1 the workload failed (one line on stderr), 2 unusable arguments, 143
 * ended by SIGTERM; {@code verdict crash} ends with 7.
 */
public final class Main {
    private static final List<Workload> WORKLOADS =
            Collections.unmodifiableList(Arrays.<Workload>asList(
                    new MemoryFiller(), new ThreadStorm(), new LiveSet(), new Holder(), new Verdict()));

    private Main() {}

    public static void main(String[] args) {
        if (args.length == 0 || isHelp(args[0])) {
            list(args.length == 0 ? System.err : System.out);
            System.exit(args.length == 0 ? 2 : 0);
        }
        for (Workload workload : WORKLOADS) {
            if (workload.name().equals(args[0])) {
                runAndExit(workload, Arrays.copyOfRange(args, 1, args.length));
            }
        }
        System.err.println("workloads: no workload is named '" + Args.printable(args[0]) + "': run without arguments for the list");
        System.exit(2);
    }

    /** Runs one workload and ends the process with its exit code. */
    static void runAndExit(Workload workload, String[] args) {
        if (args.length == 1 && isHelp(args[0])) {
            System.out.println(workload.name() + " " + workload.usage());
            System.exit(0);
        }
        try {
            System.exit(workload.run(args));
        } catch (UsageException e) {
            System.err.println(workload.name() + ": " + e.getMessage());
            System.exit(2);
        } catch (Exception e) {
            System.err.println(workload.name() + ": " + (e.getMessage() == null ? e.toString() : e.getMessage()));
            System.exit(1);
        }
    }

    private static boolean isHelp(String arg) {
        return arg.equals("--help") || arg.equals("-h");
    }

    private static void list(PrintStream out) {
        out.println("usage: java [JVM OPTIONS] -jar workloads.jar WORKLOAD ARGS...");
        for (Workload workload : WORKLOADS) {
            out.println();
            out.println(workload.name() + " " + workload.usage());
        }
    }
}
