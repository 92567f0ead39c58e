/** The goal {@code tare:check} of Maven. */
package dev.tare.maven;
