// Lets the first lines of a kind through and counts the rest: peers decide how
// often some lines come, and one mistake would soon fill a disk.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_OBSERVE_LOG_SAMPLER_H_
#define QUANTD_SERVER_OBSERVE_LOG_SAMPLER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace quantd {

// Severity of a log line, numbered as in spdlog.
enum class LogLevel { kDebug = 1, kInfo, kWarn, kError, kOff = 6 };

class LogSampler {
 public:
  // Lines of a kind that are written in each window, which begins with the
  // first of them.
  static constexpr uint64_t kLines = 10;
  static constexpr absl::Duration kWindow = absl::Seconds(10);

  struct Repeats {
    LogLevel level;
    std::string event;
    std::string kind;
    uint64_t times;
  };

  // Whether a line is to be written. Each kind is remembered for its window, so
  // a peer must not be able to make up new kinds.
  bool Admit(LogLevel level, std::string_view event, std::string_view kind,
             absl::Time now) {
    absl::MutexLock lock(&mutex_);
    Window& window = windows_
                         .try_emplace({std::string(event), std::string(kind)},
                                      Window{now, level, 0})
                         .first->second;
    if (++window.lines <= kLines) return true;
    ++repeated_;
    return false;
  }
  // Closes the windows that are over at `now`, and returns the number of lines
  // suppressed in each.
  std::vector<Repeats> Close(absl::Time now) {
    std::vector<Repeats> repeats;
    absl::MutexLock lock(&mutex_);
    std::erase_if(windows_, [&](const auto& entry) {
      const auto& [name, window] = entry;
      if (now < window.begin + kWindow) return false;
      if (window.lines > kLines) {
        repeats.push_back(
            {window.level, name.first, name.second, window.lines - kLines});
      }
      return true;
    });
    return repeats;
  }
  // Lines suppressed since the start.
  uint64_t repeated() const { return repeated_; }

 private:
  struct Window {
    absl::Time begin;
    LogLevel level;
    uint64_t lines;
  };

  absl::Mutex mutex_;
  // By event and kind.
  std::map<std::pair<std::string, std::string>, Window> windows_
      ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> repeated_ = 0;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_LOG_SAMPLER_H_
