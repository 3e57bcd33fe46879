#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

/* The wall clock of this process, shifted by the double in the file that EUNOMIA_WALL_SHIFT names. */
static volatile double *shift;
__attribute__((constructor)) static void map(void) {
    const char *path = getenv("EUNOMIA_WALL_SHIFT");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *place = mmap(NULL, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
    if (place != MAP_FAILED) shift = place;
}
int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(id, t);
    if (shift && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += (time_t)*shift;
    return done;
}
int gettimeofday(struct timeval *t, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) { t->tv_sec = now.tv_sec; t->tv_usec = now.tv_nsec / 1000; }
    return 0;
}
time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}
