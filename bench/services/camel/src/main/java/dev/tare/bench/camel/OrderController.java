package dev.tare.bench.camel;

import java.util.Map;

import org.apache.camel.ProducerTemplate;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/**
 * GET /order sends the request through a Camel route, and answers in JSON.
 */
@RestController
public class OrderController {
    private final ProducerTemplate camel;

    OrderController(ProducerTemplate camel) {
        this.camel = camel;
    }

    @GetMapping("/order")
    Map<?, ?> order() {
        return camel.requestBody("direct:order", null, Map.class);
    }
}
