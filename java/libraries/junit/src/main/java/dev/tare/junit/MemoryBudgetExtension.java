package dev.tare.junit;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.InvocationInterceptor;
import org.junit.jupiter.api.extension.ReflectiveInvocationContext;

/** Runs a test method as often as {@link MemoryBudget} asks, and checks what it holds and allocates. */
final class MemoryBudgetExtension implements InvocationInterceptor {
    @Override
    public void interceptTestMethod(Invocation<Void> invocation, ReflectiveInvocationContext<Method> test,
            ExtensionContext context) throws Throwable {
        measure(invocation, test, context);
    }

    @Override
    public void interceptTestTemplateMethod(Invocation<Void> invocation, ReflectiveInvocationContext<Method> test,
            ExtensionContext context) throws Throwable {
        measure(invocation, test, context);
    }

    private static void measure(Invocation<Void> invocation, ReflectiveInvocationContext<Method> test, ExtensionContext context)
            throws Throwable {
        Method method = test.getExecutable();
        MemoryBudget budget = method.getAnnotation(MemoryBudget.class);
        Object instance = test.getTarget().orElse(null);
        Object[] arguments = test.getArguments().toArray();
        method.setAccessible(true);
        Places places = new Places();
        context.getTestInstances().ifPresent(instances -> instances.getAllInstances().forEach(places::addFields));
        places.addStatics(context.getRequiredTestClass());
        Memory memory;
        try {
            // JUnit wants its invocation used exactly once.
            memory = Memory.of(places, () -> proceed(invocation), () -> method.invoke(instance, arguments), budget.operations(),
                    budget.repeats());
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
        ResultFile.append(context, memory);
        if (!budget.retained().isEmpty()) {
            memory.assertRetained(budget.retained());
        }
        if (!budget.allocated().isEmpty()) {
            memory.assertAllocated(budget.allocated());
        }
    }

    private static Object proceed(Invocation<Void> invocation) throws Exception {
        try {
            return invocation.proceed();
        } catch (Throwable e) {
            throw new InvocationTargetException(e);
        }
    }
}
