// What NativeMemory.java has done by a library of C.
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Maps and writes count pieces of anonymous memory, between which one page is
// not mapped: the kernel then makes each a mapping of its own.
static int64_t map(int32_t count, int64_t bytes, int advice) {
	long page = sysconf(_SC_PAGESIZE);
	// Huge pages begin at multiples of their size.
	int64_t align = advice == MADV_HUGEPAGE ? 2 << 20 : page;
	for (int32_t i = 0; i < count; i++) {
		char *room = mmap(0, bytes + align + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (room == MAP_FAILED)
			return -1;
		char *piece = (char *)(((uintptr_t)room + page + align - 1) / align * align);
		char *end = room + bytes + align + page;
		if (munmap(room, piece - room) || (end > piece + bytes && munmap(piece + bytes, end - piece - bytes)))
			return -1;
		if (advice != MADV_NORMAL && madvise(piece, bytes, advice))
			return -1;
		memset(piece, 1, bytes);
	}
	return count * bytes;
}

int64_t Java_dev_tare_workloads_NativeMemory_map(void *env, void *class, int32_t count, int64_t bytes) {
	return map(count, bytes, MADV_NORMAL);
}

int64_t Java_dev_tare_workloads_NativeMemory_hugeMap(void *env, void *class, int32_t count, int64_t bytes) {
	return map(count, bytes, MADV_HUGEPAGE);
}

static sem_t deep;

static void *live(void *bytes) {
	char frame[(intptr_t)bytes];
	memset(frame, 1, sizeof frame);
	__asm__ volatile("" : : "r"(frame) : "memory"); // somebody reads it, for all that the compiler knows
	sem_post(&deep);
	for (;;)
		pause();
}

// Starts count threads whose stacks have the size that the limit RLIMIT_STACK
// gives them, each of which writes bytes of it.
int64_t Java_dev_tare_workloads_NativeMemory_threads(void *env, void *class, int32_t count, int64_t bytes) {
	if (sem_init(&deep, 0, 0))
		return -1;
	for (int32_t i = 0; i < count; i++) {
		pthread_t thread;
		if (pthread_create(&thread, 0, live, (void *)(intptr_t)bytes))
			return -1;
		sem_wait(&deep);
	}
	return count * bytes;
}
