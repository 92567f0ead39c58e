// What NativeMemory.java has done by a library that holds its own malloc.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Linked in, and seen by nobody else.
extern void *malloc(size_t size);

static void *volatile held;

int64_t Java_dev_tare_workloads_NativeMemory_jemalloc(void *env, void *class, int32_t count, int64_t bytes) {
	for (int32_t i = 0; i < count; i++) {
		held = malloc(bytes);
		if (!held)
			return -1;
		memset(held, 1, bytes);
	}
	return count * bytes;
}
