package dev.tare.workloads;

/** One program of this jar. Implementations live for one run. */
interface Workload {
    /** The name on the command line, for example {@code memory-filler}. */
    String name();

    /** The arguments and what they mean, in a few lines, without the name. */
    String usage();

    /**
     * Runs to the end of the workload.
     *
     * @return the exit code of the process
     * @throws UsageException when an argument is missing or makes no sense
     */
    int run(String[] args) throws Exception;
}
