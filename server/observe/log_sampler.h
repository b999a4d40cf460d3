// Lets the first lines of a kind through and counts the rest: peers decide how
// often some lines come, and a disk is soon full of one mistake.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_OBSERVE_LOG_SAMPLER_H_
#define QUANTD_SERVER_OBSERVE_LOG_SAMPLER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/observe/log_level.h"

namespace quantd {

class LogSampler {
 public:
  // So many lines of a kind in so long a time, which begins with the first.
  static constexpr uint64_t kLines = 10;
  static constexpr absl::Duration kWindow = absl::Seconds(10);

  struct Repeats {
    LogLevel level = LogLevel::kInfo;
    std::string event;
    std::string kind;
    uint64_t times = 0;
  };

  // Whether a line is to be written. Each kind is remembered for its window,
  // so a peer must not be able to make up new ones.
  bool Admit(LogLevel level, std::string_view event, std::string_view kind,
             absl::Time now);
  // Ends the windows whose time is over by `now`, and tells of the lines that
  // were not admitted in them.
  std::vector<Repeats> Close(absl::Time now);
  // Lines that were not admitted, since the start.
  uint64_t repeated() const;

 private:
  struct Window {
    absl::Time begin;
    LogLevel level;
    uint64_t lines;
  };

  mutable absl::Mutex mutex_;
  // By event and kind.
  absl::flat_hash_map<std::pair<std::string, std::string>, Window> windows_
      ABSL_GUARDED_BY(mutex_);
  uint64_t repeated_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_LOG_SAMPLER_H_
