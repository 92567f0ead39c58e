package dev.tare.bench.shop;

import org.springframework.data.jpa.repository.JpaRepository;

/** The categories of the shop. */
public interface Categories extends JpaRepository<Category, Long> {}
