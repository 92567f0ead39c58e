package dev.tare.sysinfo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

class JsonTest {
    @Test
    void everyKindOfValue() {
        Map<String, Object> object = new LinkedHashMap<>();
        object.put("n", null);
        object.put("b", true);
        object.put("i", 1);
        object.put("l", -9007199254740993L);
        object.put("d", 0.5);
        object.put("s", "a\"b\\c\n\u00e9");
        object.put("o", Collections.singletonMap("x", "y"));
        object.put("e", Collections.emptyMap());
        object.put("r", new Json.Raw("{\"stored\":1}"));
        assertEquals("{\"n\":null,\"b\":true,\"i\":1,\"l\":-9007199254740993,\"d\":0.5,\"s\":\"a\\\"b\\\\c\\u000a\\u00e9\","
                + "\"o\":{\"x\":\"y\"},\"e\":{},\"r\":{\"stored\":1}}", Json.text(object));
    }

    @Test
    void whatJsonCannotSayIsRefused() {
        assertThrows(IllegalArgumentException.class, () -> Json.text(Double.NaN));
        assertThrows(IllegalArgumentException.class, () -> Json.text(Double.POSITIVE_INFINITY));
        assertThrows(IllegalArgumentException.class, () -> Json.text(List.of()));
    }

    @Test
    void anyTextComesBack() throws Exception {
        Random random = new Random(1);
        ObjectMapper reader = new ObjectMapper();
        for (int i = 0; i < 2_000; i++) {
            StringBuilder text = new StringBuilder();
            for (int length = random.nextInt(20); length > 0; length--) {
                text.append((char) random.nextInt(i % 2 == 0 ? 128 : 0xd800));
            }
            assertEquals(text.toString(), reader.readValue(Json.text(text.toString()), String.class));
        }
    }
}
