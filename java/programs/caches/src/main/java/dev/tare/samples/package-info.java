/** Measurements of memory that go wrong, each beside the right one. */
package dev.tare.samples;
