/* Delays what makes files durable, as a slower disk does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void delay(void)
{
	static long us = -1;
	struct timespec t;

	if (us < 0) {
		const char *s = getenv("SLOWDISK_US");
		us = s ? atol(s) : 0;
	}
	t.tv_sec = us / 1000000;
	t.tv_nsec = us % 1000000 * 1000;
	nanosleep(&t, NULL);
}

int fsync(int fd)
{
	static int (*next)(int);

	if (!next)
		next = (int (*)(int)) dlsym(RTLD_NEXT, "fsync");
	delay();
	return next(fd);
}

int fdatasync(int fd)
{
	static int (*next)(int);

	if (!next)
		next = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
	delay();
	return next(fd);
}
