/**
 * Programs whose memory behaviour is known in advance, to measure JVMs with and to check verdicts against.
 *
 * <p>All run on Java 8 and later with nothing but the JDK. {@code java -jar workloads.jar} lists them;
 * {@code java -jar workloads.jar NAME ARGS...} runs one. Each checks its arguments (one line on stderr and exit
 * code 2), prints its process id first, and flushes every line that it prints.
 */
package dev.tare.workloads;
