package dev.tare.bench.shop;

import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.Id;
import jakarta.validation.constraints.NotBlank;

/** A category of products. */
@Entity
public class Category {
    @Id @GeneratedValue private Long id;
    @NotBlank private String name;

    protected Category() {}

    Category(String name) {
        this.name = name;
    }

    public Long getId() {
        return id;
    }

    public String getName() {
        return name;
    }
}
