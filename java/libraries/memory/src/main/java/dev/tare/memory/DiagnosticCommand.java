package dev.tare.memory;

import java.lang.management.ManagementFactory;
import javax.management.JMException;
import javax.management.MalformedObjectNameException;
import javax.management.ObjectName;

/**
 * The commands of {@code jcmd}, sent by a JVM to itself through the platform's MBean
 * {@code com.sun.management:type=DiagnosticCommand} (com.sun.management.DiagnosticCommandMBean, JDK 8 and later).
 */
public final class DiagnosticCommand {
    private DiagnosticCommand() {
    }

    /**
     * The answer to a command.
     *
     * @param operation the MBean's name of it: GC.class_histogram is gcClassHistogram
     * @throws UnavailableException when this JVM has no such command
     */
    public static String run(String operation, String... arguments) throws UnavailableException {
        try {
            Object answer = ManagementFactory.getPlatformMBeanServer().invoke(
                    new ObjectName("com.sun.management:type=DiagnosticCommand"), operation,
                    new Object[] {arguments}, new String[] {String[].class.getName()});
            return String.valueOf(answer);
        } catch (MalformedObjectNameException e) {
            throw new AssertionError(e);
        } catch (JMException | RuntimeException e) {
            throw new UnavailableException("the diagnostic command " + operation + " cannot be had from this JVM ("
                    + e + "): it needs HotSpot with the module jdk.management", e);
        }
    }
}
