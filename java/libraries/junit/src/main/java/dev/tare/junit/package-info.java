/**
 * Memory budgets for JUnit 5: a test fails when what it holds, or allocates, is more than allowed, and says which
 * classes grew. See {@link dev.tare.junit.MemoryBudget} and, for use inside a test, {@link dev.tare.junit.Memory}.
 */
package dev.tare.junit;
