/** Runs {@code tare check} for build tools: what the plugins of Maven and Gradle share. */
package dev.tare.check;
