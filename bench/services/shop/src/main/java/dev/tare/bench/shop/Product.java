package dev.tare.bench.shop;

import jakarta.persistence.Entity;
import jakarta.persistence.FetchType;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.Id;
import jakarta.persistence.ManyToOne;
import jakarta.validation.constraints.NotBlank;
import jakarta.validation.constraints.Positive;
import java.math.BigDecimal;

/** A product of one category. */
@Entity
public class Product {
    @Id @GeneratedValue private Long id;
    @NotBlank private String name;
    private String description;
    @Positive private BigDecimal price;

    @ManyToOne(fetch = FetchType.LAZY, optional = false)
    private Category category;

    protected Product() {}

    Product(String name, String description, BigDecimal price, Category category) {
        this.name = name;
        this.description = description;
        this.price = price;
        this.category = category;
    }

    public Long getId() {
        return id;
    }

    public String getName() {
        return name;
    }

    public String getDescription() {
        return description;
    }

    public BigDecimal getPrice() {
        return price;
    }

    public Category getCategory() {
        return category;
    }
}
