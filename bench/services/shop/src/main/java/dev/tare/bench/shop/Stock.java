package dev.tare.bench.shop;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
import org.springframework.boot.ApplicationArguments;
import org.springframework.boot.ApplicationRunner;
import org.springframework.stereotype.Component;
import org.springframework.transaction.annotation.Transactional;

/** Fills the shop, each time with the same. */
@Component
class Stock implements ApplicationRunner {
    private static final int CATEGORIES = 20;
    private static final int PRODUCTS = 500;

    private final Categories categories;
    private final Products products;

    Stock(Categories categories, Products products) {
        this.categories = categories;
        this.products = products;
    }

    @Override
    @Transactional
    public void run(ApplicationArguments args) {
        List<Category> all = new ArrayList<>();
        for (int i = 0; i < CATEGORIES; i++) {
            all.add(categories.save(new Category("Category " + i)));
        }
        for (int i = 0; i < PRODUCTS; i++) {
            products.save(
                    new Product(
                            "Product " + i,
                            "What product " + i + " is good for, in a sentence of some length.",
                            BigDecimal.valueOf(100 + i * 37L % 9900, 2),
                            all.get(i % CATEGORIES)));
        }
    }
}
