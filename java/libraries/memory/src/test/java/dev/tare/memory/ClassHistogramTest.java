package dev.tare.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ClassHistogramTest {
    private static final String JDK_8 = String.join("\n",
            "",
            " num     #instances         #bytes  class name",
            "----------------------------------------------",
            "   1:           412        1147456  [B",
            "   2:           946          84312  [C",
            "   3:           512          57984  java.lang.Class",
            "   4:             3             48  [[Ljava.lang.String;",
            "Total          1873        1289800",
            "");
    private static final String JDK_25 = String.join("\n",
            " num     #instances         #bytes  class name (module)",
            "-------------------------------------------------------",
            "   1:          5000         500000  [B (java.base@25.0.3)",
            "   2:             2             64  a.b.C",
            "   3:             1             32  a.b.C",
            "   4:             1             16  java.lang.invoke.LambdaForm$MH/0x00007f (java.base@25.0.3)",
            "Total          5004         500112");

    @Test
    void readsWhatJvmsPrint() throws UnavailableException {
        ClassHistogram old = ClassHistogram.parse(JDK_8);
        assertEquals(1289800, old.totalBytes());
        assertEquals(1147456, old.bytes("byte[]"));
        assertEquals(48, old.bytes("java.lang.String[][]"));
        assertEquals(0, old.bytes("a.b.C"));
        ClassHistogram recent = ClassHistogram.parse(JDK_25);
        assertEquals(500112, recent.totalBytes());
        assertEquals(96, recent.bytes("a.b.C"));

        List<ClassHistogram.Growth> growth = old.since(recent);
        assertEquals("byte[]", growth.get(0).className);
        assertEquals(647456, growth.get(0).bytes);
        assertEquals(old.totalBytes() - recent.totalBytes(), growth.stream().mapToLong(g -> g.bytes).sum());
    }

    @Test
    void readsNamesWithBlanks() throws UnavailableException {
        ClassHistogram histogram = ClassHistogram.parse(" 1: 2 48 shop.Order Test$a new order (java.x@1.2)\n"
                + " 2: 1 16 shop.Order Test\n 3: 1 24 [Lshop.Order Test;\nTotal 4 88\n");
        assertEquals(48, histogram.bytes("shop.Order Test$a new order"));
        assertEquals(16, histogram.bytes("shop.Order Test"));
        assertEquals(24, histogram.bytes("shop.Order Test[]"));
    }

    /** The JVM allows names that the language Java does not; compilers of other languages use them. */
    @Test
    void countsAClassWithABlankInItsName() throws Exception {
        Object alive = new ClassLoader(null) {
            Class<?> define() throws IOException {
                try (InputStream in = ClassHistogramTest.class.getResourceAsStream("ClassHistogramTest$With_Blank.class")) {
                    byte[] code = in.readAllBytes();
                    byte[] name = "$With_Blank".getBytes(StandardCharsets.US_ASCII);
                    for (int i = 0; i + name.length <= code.length; i++) {
                        if (Arrays.equals(Arrays.copyOfRange(code, i, i + name.length), name)) {
                            code[i + "$With".length()] = ' ';
                        }
                    }
                    return defineClass(null, code, 0, code.length);
                }
            }
        }.define().getDeclaredConstructor().newInstance();
        assertEquals(16, ClassHistogram.take().bytes("dev.tare.memory.ClassHistogramTest$With Blank"));
        assertTrue(alive.getClass().getName().endsWith("$With Blank"));
    }

    public static final class With_Blank {
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", "Heap inspection not supported", " 1: 1 16 a.B\nTotal 1 24", " 1: 1 16 a.B", " 1: x 16 a.B\nTotal 1 16",
        "Total 99999999999999999999 1",
    })
    void refusesWhatIsNone(String text) {
        assertThrows(UnavailableException.class, () -> ClassHistogram.parse(text));
    }

    @Test
    void countsALiveObjectExactly() throws UnavailableException {
        ClassHistogram.take();
        ClassHistogram before = ClassHistogram.take();
        long[] alive = new long[1_000_000];
        ClassHistogram with = ClassHistogram.take();
        alive[0] = 1;
        assertEquals(8_000_016, with.bytes("long[]") - before.bytes("long[]"), 100_000);
        assertEquals("long[]", with.since(before).get(0).className);
        assertEquals(1, alive[0]);
        alive = null;
        assertTrue(ClassHistogram.take().bytes("long[]") < with.bytes("long[]") - 7_900_000);
    }
}
