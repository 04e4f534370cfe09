/* Lets the wall clock of a process jump: to be preloaded. The file that LD_JUMPING_CLOCK names holds a number of
   seconds, as an int64, that is added from then on. Not libfaketime, in which Python's sleep fails (EINVAL).

   Whoever waits until a moment of that clock, as librdkafka does, waits by the same clock: the kernel would compare
   with its own. Such a wait ends early when the clock jumps ahead, and late when it goes back, as in life. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *seconds;

__attribute__((constructor)) static void begin(void) {
  const char *name = getenv("LD_JUMPING_CLOCK");
  int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *found = mmap(NULL, sizeof *seconds, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (found != MAP_FAILED) seconds = found;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = (int)syscall(SYS_clock_gettime, clock, now);
  if (!failed && seconds && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *seconds;
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec exact;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *into) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (into) *into = exact.tv_sec;
  return exact.tv_sec;
}

#define EPOCH 1000000000 /* a moment of the wall clock; those of the monotonic clock count from the start of the machine */
#define SLICE 20000000   /* ns after which it is looked whether the clock has jumped */

typedef int waiting(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

/* Wait in slices of the kernel's clock until the moment has come by ours. */
static int wait_until(waiting *real, pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until,
                      int timed_out) {
  for (;;) {
    struct timespec ours, slice;
    clock_gettime(CLOCK_REALTIME, &ours);
    if (ours.tv_sec > until->tv_sec || (ours.tv_sec == until->tv_sec && ours.tv_nsec >= until->tv_nsec)) return timed_out;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &slice);
    slice.tv_nsec += SLICE;
    if (slice.tv_nsec >= 1000000000) slice.tv_sec++, slice.tv_nsec -= 1000000000;
    int result = real(condition, mutex, &slice);
    if (result != timed_out) return result;
  }
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
  static waiting *real;
  if (!real) real = (waiting *)dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  if (!seconds || until->tv_sec < EPOCH) return real(condition, mutex, until);
  return wait_until(real, condition, mutex, until, ETIMEDOUT);
}

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until) {
  static waiting *real;
  if (!real) real = (waiting *)dlsym(RTLD_NEXT, "cnd_timedwait");
  if (!seconds) return real((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until);
  return wait_until(real, (pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until, thrd_timedout);
}
