/**
 * Caches by speed and by memory: a JMH benchmark after ZipfianSequenceLoading of github.com/cache2k/cache2k-benchmark,
 * which "The 6 Memory Metrics You Should Track in Your Java Benchmarks" (cruftex.net/2017/03/28) measured, rewritten for
 * the current libraries.
 */
package dev.tare.caches;
