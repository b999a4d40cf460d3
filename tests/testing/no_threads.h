// A machine that has no more threads.
#ifndef QUANTD_TESTS_TESTING_NO_THREADS_H_
#define QUANTD_TESTS_TESTING_NO_THREADS_H_

#include <pthread.h>

#include <cstddef>

namespace quantd {

// While it lives, no thread of this process can be started: new threads would
// get stacks larger than the address space.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t none = before_;
    pthread_attr_setstacksize(&none, size_t{1} << 48);
    pthread_setattr_default_np(&none);
  }
  ~NoThreads() { pthread_setattr_default_np(&before_); }
  NoThreads(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_TESTING_NO_THREADS_H_
