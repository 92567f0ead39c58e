package dev.tare.junit;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.InvocationInterceptor;
import org.junit.jupiter.api.extension.ReflectiveInvocationContext;

/** Runs a test method as often as {@link MemoryBudget} asks, and checks what it holds and allocates. */
final class MemoryBudgetExtension implements InvocationInterceptor {
    @Override
    public void interceptTestMethod(Invocation<Void> invocation, ReflectiveInvocationContext<Method> test,
            ExtensionContext context) throws Throwable {
        measure(invocation, test);
    }

    @Override
    public void interceptTestTemplateMethod(Invocation<Void> invocation, ReflectiveInvocationContext<Method> test,
            ExtensionContext context) throws Throwable {
        measure(invocation, test);
    }

    private static void measure(Invocation<Void> invocation, ReflectiveInvocationContext<Method> test) throws Throwable {
        Method method = test.getExecutable();
        MemoryBudget budget = method.getAnnotation(MemoryBudget.class);
        Object instance = test.getTarget().orElse(null);
        Object[] arguments = test.getArguments().toArray();
        method.setAccessible(true);
        Fields fields = new Fields(instance);
        // JUnit wants its invocation used exactly once: it does the first run, which loads the classes.
        invocation.proceed();
        Memory memory;
        try {
            memory = Memory.of(fields::restore, () -> method.invoke(instance, arguments), budget.operations(), budget.repeats());
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
        if (!budget.retained().isEmpty()) {
            memory.assertRetained(budget.retained());
        }
        if (!budget.allocated().isEmpty()) {
            memory.assertAllocated(budget.allocated());
        }
    }

    /** The fields of a test's instance that may refer to what it holds, with the values that they had before. */
    private static final class Fields {
        private final Object instance;
        private final Map<Field, Object> values = new LinkedHashMap<>();

        Fields(Object instance) throws IllegalAccessException {
            this.instance = instance;
            for (Class<?> type = instance == null ? null : instance.getClass(); type != null; type = type.getSuperclass()) {
                for (Field field : type.getDeclaredFields()) {
                    int modifiers = field.getModifiers();
                    if (!Modifier.isStatic(modifiers) && !Modifier.isFinal(modifiers) && !field.getType().isPrimitive()) {
                        field.setAccessible(true);
                        values.put(field, field.get(instance));
                    }
                }
            }
        }

        void restore() {
            values.forEach((field, value) -> {
                try {
                    field.set(instance, value);
                } catch (IllegalAccessException e) {
                    throw new IllegalStateException(field + " was accessible", e);
                }
            });
        }
    }
}
