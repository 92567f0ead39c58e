/**
 * The demo service: an ordinary small Java service (HTTP, logging, connection pool, database) that tells what the
 * JVM and Linux say about its own memory, and whose requests cost what the caller asks for.
 *
 * <p>Endpoints and names follow the service of "Running Clojure programs on constrained memory",
 * https://dev.solita.fi/2022/03/18/running-clojure-on-constrained-memory.html. Layers, each knowing only the ones
 * above it in this list: the kernel's files ({@link dev.tare.sysinfo.ProcFs}, {@link dev.tare.sysinfo.ProcStat},
 * {@link dev.tare.sysinfo.MemInfo}, {@link dev.tare.sysinfo.AuxVector}, {@link dev.tare.sysinfo.Cgroup}), the
 * answers ({@link dev.tare.sysinfo.SystemInfo}), the history ({@link dev.tare.sysinfo.History}), HTTP
 * ({@link dev.tare.sysinfo.Service}), the command line ({@link dev.tare.sysinfo.Main}).
 */
package dev.tare.sysinfo;
