/**
 * What a JVM can say of its own memory without an agent, an attach or a JDK: the live heap by class, the memory in use
 * once it has settled, the bytes that its threads allocated. Sizes are bytes.
 *
 * <p>Whatever a JVM may lack is asked for by a method that throws {@link dev.tare.memory.UnavailableException}, whose
 * message says what to do; nothing is ever reported as zero for want of a source.
 */
package dev.tare.memory;
