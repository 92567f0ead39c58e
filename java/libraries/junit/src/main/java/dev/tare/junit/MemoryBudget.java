package dev.tare.junit;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.parallel.ResourceAccessMode;
import org.junit.jupiter.api.parallel.ResourceLock;
import org.junit.jupiter.api.parallel.Resources;

/**
 * What a test method may hold and allocate. JUnit runs the method once, which loads classes, and then it is run
 * {@link #repeats} times more, always on the same instance of its class. What counts is the median of these.
 *
 * <p>Retained is by how much the live heap grows in a run: what the fields of the test, of the tests that it is nested in,
 * and static fields then hold. Assign to a field what is to be weighed. Before each run the fields of these objects and
 * the static fields of their classes get back the values that they had at first, and so do the elements of arrays and of
 * collections of the JDK in them. Fields of primitive types stay as they are. What the method keeps elsewhere counts as
 * {@link Memory} says.
 *
 * <p>Methods with a budget run alone when JUnit runs tests in parallel. A budget that this JVM cannot measure fails the
 * test, or skips it in a JVM that was started with {@code -Ddev.tare.junit.unmeasurable=skip}.
 */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.METHOD)
@ExtendWith(MemoryBudgetExtension.class)
@ResourceLock(value = Resources.GLOBAL, mode = ResourceAccessMode.READ_WRITE)
public @interface MemoryBudget {
    /** A size, such as "2 MiB"; empty: no limit. Units: B, KiB, MiB, GiB. */
    String retained() default "";

    /** A size per operation, such as "10 KiB/op"; empty: no limit. One run is {@link #operations} operations. */
    String allocated() default "";

    /** How many operations one run of the method is. */
    int operations() default 1;

    /** How many runs are measured, at least 1. */
    int repeats() default 5;
}
