package dev.tare.bench.shop;

import org.springframework.data.domain.Page;
import org.springframework.data.domain.Pageable;
import org.springframework.data.jpa.repository.EntityGraph;
import org.springframework.data.jpa.repository.JpaRepository;

/** The products of the shop. */
public interface Products extends JpaRepository<Product, Long> {
    @EntityGraph(attributePaths = "category")
    Page<Product> findByNameContainingIgnoreCase(String part, Pageable page);
}
