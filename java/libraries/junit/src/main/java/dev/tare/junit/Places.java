package dev.tare.junit;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicReference;

/**
 * The places in reach of a test where code may keep what it makes, with what they held before the first run: fields, and
 * the elements of arrays and of the JDK's collections that fields hold. Where each run replaces what the one before it
 * kept, the heap does not grow from run to run; so the places get back what they held.
 */
final class Places {
    private final List<Runnable> restorers = new ArrayList<>();
    private final Set<Object> added = Collections.newSetFromMap(new IdentityHashMap<>());

    /** All places as they were. */
    void restore() {
        restorers.forEach(Runnable::run);
    }

    /** The places of code: what it has captured, and the static fields of the class that it is written in. */
    static Places of(Callable<?> code) {
        Places places = new Places();
        places.addCode(code);
        return places;
    }

    private void addCode(Object code) {
        Class<?> writtenIn = writtenIn(code.getClass());
        if (writtenIn == null) {
            return;
        }
        addStatics(writtenIn);
        for (Field field : code.getClass().getDeclaredFields()) {
            Object captured = Modifier.isStatic(field.getModifiers()) ? null : get(field, code);
            if (captured == null || !added.add(captured)) {
                continue;
            }
            if (captured.getClass() == writtenIn || writtenIn.isInstance(captured)) {
                addFields(captured);
            } else if (isLambda(captured.getClass())) {
                addCode(captured);
            }
            addElements(captured);
        }
    }

    private static boolean isLambda(Class<?> type) {
        return type.getName().contains("$$Lambda");
    }

    /** The class whose source a lambda or an inner class stands in; null when there is none. */
    private static Class<?> writtenIn(Class<?> type) {
        if (!isLambda(type)) {
            return type.getEnclosingClass();
        }
        String name = type.getName(); // OUTER$$Lambda and more, by java.lang.invoke.InnerClassLambdaMetafactory
        try {
            return Class.forName(name.substring(0, name.indexOf("$$Lambda")), false, type.getClassLoader());
        } catch (ClassNotFoundException | LinkageError e) {
            return null;
        }
    }

    /** Fields of an object. Values of primitive types stay: they hold nothing. */
    void addFields(Object object) {
        for (Class<?> type = object.getClass(); type != null && type.getClassLoader() != null; type = type.getSuperclass()) {
            addFields(type, object);
        }
    }

    /** Static fields of a class, of those that it is written in, and of those that it extends. */
    void addStatics(Class<?> type) {
        for (Class<?> outer = type; outer != null; outer = outer.getEnclosingClass()) {
            for (Class<?> each = outer; each != null && each.getClassLoader() != null; each = each.getSuperclass()) {
                if (added.add(each)) {
                    addFields(each, null);
                }
            }
        }
    }

    private void addFields(Class<?> type, Object object) {
        for (Field field : type.getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) != (object == null) || field.getType().isPrimitive() || field.isSynthetic()) {
                continue;
            }
            Object value = get(field, object);
            if (!Modifier.isFinal(field.getModifiers()) && field.isAccessible()) {
                restorers.add(() -> set(field, object, value));
            }
            if (value != null) {
                addElements(value);
            }
        }
    }

    /** What a field refers to; null too where it may not be read. */
    private static Object get(Field field, Object object) {
        try {
            field.setAccessible(true);
            return field.get(object);
        } catch (IllegalAccessException | RuntimeException e) { // of a module that does not open its package
            return null;
        }
    }

    private static void set(Field field, Object object, Object value) {
        try {
            if (field.get(object) != value) {
                field.set(object, value);
            }
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(field + " was accessible", e);
        }
    }

    @SuppressWarnings("unchecked")
    private void addElements(Object value) {
        boolean ofTheJdk = value.getClass().getName().startsWith("java.util."); // others may do more than keep
        if (value instanceof Object[]) {
            Object[] array = (Object[]) value;
            Object[] before = array.clone();
            restorers.add(() -> System.arraycopy(before, 0, array, 0, Array.getLength(before)));
        } else if (value instanceof AtomicReference) {
            Object before = ((AtomicReference<?>) value).get();
            restorers.add(() -> ((AtomicReference<Object>) value).set(before));
        } else if (ofTheJdk && value instanceof Collection) {
            addCollection((Collection<Object>) value);
        } else if (ofTheJdk && value instanceof Map) {
            addMap((Map<Object, Object>) value);
        }
    }

    private void addCollection(Collection<Object> collection) {
        List<Object> before = new ArrayList<>(collection);
        restorers.add(() -> {
            if (!same(before, collection)) {
                collection.clear();
                collection.addAll(before);
            }
        });
    }

    private void addMap(Map<Object, Object> map) {
        List<Object> keys = new ArrayList<>(map.keySet());
        List<Object> values = new ArrayList<>(map.values());
        restorers.add(() -> {
            if (!same(keys, map.keySet()) || !same(values, map.values())) {
                map.clear();
                for (int i = 0; i < keys.size(); i++) {
                    map.put(keys.get(i), values.get(i));
                }
            }
        });
    }

    private static boolean same(List<Object> before, Collection<Object> now) {
        if (before.size() != now.size()) {
            return false;
        }
        int i = 0;
        for (Object element : now) {
            if (i == before.size() || before.get(i++) != element) {
                return false;
            }
        }
        return i == before.size();
    }
}
