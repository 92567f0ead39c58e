package dev.tare.junit;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * What a test method may hold and allocate. The method is run twice to load classes and then {@link #repeats}
 * times, always on the same instance of its class; what counts is the median of those.
 *
 * <p>Retained is the growth of the live heap from before a run until after it, so it is what fields of the test, and
 * static fields, hold then: assign to a field what is to be weighed. Before each run the instance's fields, other than
 * final and primitive ones, get back the values that they had before the first. What earlier runs left elsewhere, in a
 * static list for instance, counts as there before.
 */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.METHOD)
@ExtendWith(MemoryBudgetExtension.class)
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
