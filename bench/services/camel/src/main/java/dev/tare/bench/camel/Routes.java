package dev.tare.bench.camel;

import org.apache.camel.builder.RouteBuilder;
import org.springframework.stereotype.Component;

/**
 * direct:order gives an order; a timer makes one every five seconds, as integration services do
 * beside what they serve.
 */
@Component
public class Routes extends RouteBuilder {
    @Override
    public void configure() {
        from("direct:order").routeId("order")
                .bean(Orders.class, "next")
                .setHeader("article", simple("${body[lines][0][article]}"));

        from("timer:order?period=5000").routeId("made")
                .to("direct:order")
                .log("order ${body[number]} made, of ${header.article} first");
    }
}
