// A library for LD_PRELOAD that steps the wall clock of one process, as `date
// --set` does for the whole machine. QUANTD_CLOCK_STEP names a file whose first
// eight bytes are the nanoseconds by which the clock is ahead.
//
// A wait by the wall clock ends when the stepped clock shows the time. So a
// step makes it shorter or longer, as a step of the kernel's own clock would.
// Each wait is therefore cut into short ones, and the clock is read after each.
// CLOCK_MONOTONIC is unchanged.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kSlice = kSecond / 100;

// Function-local static variables must be constinit in this file. Otherwise
// threads would wait for their initialization by syscall(), which this file
// replaces.

const std::atomic<int64_t>* OpenStep() {
  static constinit std::atomic<int64_t> none{0};
  const char* const path = getenv("QUANTD_CLOCK_STEP");
  const int fd = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return &none;
  void* const at = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  return at == MAP_FAILED ? &none
                          : static_cast<const std::atomic<int64_t>*>(at);
}

// Returns how far the clock is ahead in nanoseconds, or zero if the file did
// not exist at the first call.
int64_t Ahead() {
  static constinit std::atomic<const std::atomic<int64_t>*> known{nullptr};
  const std::atomic<int64_t>* step = known;
  if (step == nullptr) known = step = OpenStep();
  return *step;
}

int64_t Nanoseconds(const timespec& t) {
  return int64_t{t.tv_sec} * kSecond + t.tv_nsec;
}
timespec Timespec(int64_t nanoseconds) {
  const int64_t rest = (nanoseconds % kSecond + kSecond) % kSecond;
  return {.tv_sec = (nanoseconds - rest) / kSecond, .tv_nsec = rest};
}

// Returns the kernel's clock by a system call, since the vDSO cannot be used
// here.
int64_t RealNow(clockid_t clock) {
  timespec now = {};
  syscall(SYS_clock_gettime, clock, &now);
  return Nanoseconds(now);
}
int64_t SteppedNow() { return RealNow(CLOCK_REALTIME) + Ahead(); }

bool IsWall(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

// Calls the function that this library replaces.
template <typename Function>
class Next {
 public:
  explicit constexpr Next(const char* name) : name_(name) {}

  template <typename... Arguments>
  auto operator()(Arguments... arguments) {
    Function* next = known_;
    if (next == nullptr) {
      known_ = next = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
    }
    return next(arguments...);
  }

 private:
  const char* const name_;
  std::atomic<Function*> known_{nullptr};
};

// Waits until the stepped clock shows `due`, by calls of `wait`. `wait` takes a
// time of the kernel's wall clock and returns `timed_out` once that has passed.
template <typename Wait>
long UntilDue(int64_t due, long timed_out, Wait wait) {
  for (;;) {
    const int64_t left = due - SteppedNow();
    const timespec slice = Timespec(RealNow(CLOCK_REALTIME) +
                                    std::clamp<int64_t>(left, 0, kSlice));
    const long result = wait(slice);
    if (result != timed_out || SteppedNow() >= due) return result;
  }
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* to) noexcept {
  static constinit Next<int(clockid_t, timespec*)> next("clock_gettime");
  const int result = next(clock, to);
  if (result == 0 && IsWall(clock)) *to = Timespec(Nanoseconds(*to) + Ahead());
  return result;
}

int gettimeofday(timeval* __restrict to, void* __restrict) noexcept {
  const timespec now = Timespec(SteppedNow());
  to->tv_sec = now.tv_sec;
  to->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* to) noexcept {
  const time_t now = Timespec(SteppedNow()).tv_sec;
  if (to != nullptr) *to = now;
  return now;
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           clockid_t clock, const timespec* until) {
  static constinit Next<int(pthread_cond_t*, pthread_mutex_t*, clockid_t,
                            const timespec*)>
      next("pthread_cond_clockwait");
  if (!IsWall(clock)) return next(condition, mutex, clock, until);
  return static_cast<int>(
      UntilDue(Nanoseconds(*until), ETIMEDOUT, [&](const timespec& slice) {
        return next(condition, mutex, clock, &slice);
      }));
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  // glibc keeps the clock of a condition variable in the second bit of its
  // tenth word (__wrefs).
  const bool monotonic =
      (reinterpret_cast<const unsigned*>(condition)[9] & 2) != 0;
  return pthread_cond_clockwait(
      condition, mutex, monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME, until);
}

// abseil waits by futex system calls.
long syscall(long number, ...) noexcept {
  static constinit Next<long(long, long, long, long, long, long, long)> next(
      "syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& each : a) each = va_arg(list, long);
  va_end(list);
  constexpr long kByWall = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;
  if (number != SYS_futex || (a[1] & ~FUTEX_PRIVATE_FLAG) != kByWall ||
      a[3] == 0) {
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  }
  const int64_t due = Nanoseconds(*reinterpret_cast<const timespec*>(a[3]));
  // A wait fails with -1 and errno.
  return UntilDue(due, -1,
                  [&](const timespec& slice) {
                    const long result =
                        next(number, a[0], a[1], a[2],
                             reinterpret_cast<long>(&slice), a[4], a[5]);
                    return result == -1 && errno != ETIMEDOUT ? -2 : result;
                  }) == 0
             ? 0
             : -1;
}

}  // extern "C"
