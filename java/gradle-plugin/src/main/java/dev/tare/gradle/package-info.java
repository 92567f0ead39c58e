/** The plugin {@code dev.tare} of Gradle, with the task {@code tareCheck}. */
package dev.tare.gradle;
