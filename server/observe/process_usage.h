// What the kernel says about this process.
#ifndef QUANTD_SERVER_OBSERVE_PROCESS_USAGE_H_
#define QUANTD_SERVER_OBSERVE_PROCESS_USAGE_H_

#include <cstdint>

namespace quantd {

struct ProcessUsage {
  double start_time = 0;   // seconds since 1970
  double cpu_seconds = 0;  // user and system, all threads
  uint64_t resident_bytes = 0;
  uint64_t virtual_bytes = 0;
  uint64_t heap_used_bytes = 0;  // lent by malloc
  uint64_t open_fds = 0;
  uint64_t max_fds = 0;
};

// Zero for what cannot be read. Any thread.
ProcessUsage ReadProcessUsage();

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_PROCESS_USAGE_H_
