package dev.tare.bench.shop;

import org.springframework.data.domain.PageRequest;
import org.springframework.data.domain.Sort;
import org.springframework.http.HttpStatus;
import org.springframework.stereotype.Controller;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.ui.Model;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.server.ResponseStatusException;

/** The pages of the shop. */
@Controller
class ShopController {
    private static final int PAGE = 20;

    private final Products products;

    ShopController(Products products) {
        this.products = products;
    }

    @GetMapping("/products")
    @Transactional(readOnly = true)
    public String products(
            @RequestParam(defaultValue = "") String name,
            @RequestParam(defaultValue = "0") int page,
            Model model) {
        model.addAttribute(
                "page",
                products.findByNameContainingIgnoreCase(
                        name, PageRequest.of(page, PAGE, Sort.by("name"))));
        return "products";
    }

    @GetMapping("/products/{id}")
    public String product(@PathVariable long id, Model model) {
        model.addAttribute(
                "product",
                products
                        .findById(id)
                        .orElseThrow(() -> new ResponseStatusException(HttpStatus.NOT_FOUND)));
        return "product";
    }
}
