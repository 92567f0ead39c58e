package dev.tare.bench.camel;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

import org.springframework.stereotype.Component;

/**
 * Orders as a route would get them from elsewhere. It keeps none.
 */
@Component
public class Orders {
    private static final int LINES = 10;

    private final AtomicLong number = new AtomicLong();

    /** The next order. */
    public Map<String, Object> next() {
        long n = number.incrementAndGet();
        List<Map<String, Object>> lines = new ArrayList<>();
        for (int i = 0; i < LINES; i++) {
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("article", "article-" + (n * LINES + i) % 997);
            line.put("pieces", 1 + (n + i) % 7);
            lines.add(line);
        }
        Map<String, Object> order = new LinkedHashMap<>();
        order.put("number", n);
        order.put("lines", lines);
        return order;
    }
}
