/**
 * Memory profilers for JMH, each named on its command line by its full class name:
 * {@code -prof dev.tare.jmh.RetainedMemory}, with options behind a colon: {@code :rounds=10;pause=100}.
 *
 * <p>They measure inside the forked JVM, between iterations: nothing runs in the measured section but the sampling of
 * {@link dev.tare.jmh.ProcessMemory}, which takes 1 % of one processor at most. Several of them take one order whatever
 * the order on the command line: what only reads comes before what collects.
 *
 * <p>In the last iteration JMH drops the benchmark's state before it stops profilers. What is read at the end of an
 * iteration therefore comes from all iterations but the last: measure two or more.
 *
 * <p>Sizes are MiB, exact in the JSON result. What cannot be had is absent, with one warning in each forked JVM, and
 * never zero; what can be had is there at zero too. Peaks aggregate to the largest, everything else to the mean.
 */
package dev.tare.jmh;
