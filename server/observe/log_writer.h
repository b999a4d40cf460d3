// Writes log lines to a descriptor on a thread of its own, so that whoever
// reads them slowly, or not at all, holds up nobody: lines wait in memory, up
// to a limit, and those beyond it are dropped and counted.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_OBSERVE_LOG_WRITER_H_
#define QUANTD_SERVER_OBSERVE_LOG_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/gate/steady_time.h"

namespace quantd {

class LogWriter {
 public:
  // Called on the writer's thread.
  struct Callbacks {
    // The line that tells how many were dropped; it is written as soon as the
    // descriptor takes lines again.
    std::function<std::string(uint64_t lines)> dropped_line;
    // Between writes, about as often as kTick says.
    std::function<void()> tick;
  };
  static constexpr absl::Duration kTick = absl::Seconds(1);

  // As many bytes of lines as `capacity` wait to be written, and as many are
  // being written.
  LogWriter(int fd, size_t capacity, Callbacks callbacks);
  // Never: its thread may be in a write that has no end.
  ~LogWriter() = delete;

  // `line` ends with its newline. Never waits for the descriptor.
  void Push(std::string_view line);
  // Whether all that was pushed is written, after `patience` at most.
  bool Flush(absl::Duration patience);
  // Lines that will never be written.
  uint64_t dropped() const;

 private:
  void Run();
  // The bytes that were written: fewer when the descriptor is broken.
  size_t Write(std::string_view text) const;
  void CountDropped(uint64_t lines) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int fd_;
  const size_t capacity_;
  const Callbacks callbacks_;
  mutable absl::Mutex mutex_;
  SteadyCondVar changed_;  // there are lines, or none any more
  std::string waiting_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t untold_ ABSL_GUARDED_BY(mutex_) = 0;  // of those, not yet reported
};

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_LOG_WRITER_H_
