package dev.tare.jmh;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Marks a field for {@link ObjectGraph}: a static field of the benchmark's or a state's class, or a field of a state of
 * {@code Scope.Benchmark}.
 */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.FIELD)
public @interface DeepSize {
}
