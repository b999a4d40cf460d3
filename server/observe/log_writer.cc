#include "server/observe/log_writer.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

namespace quantd {

LogWriter::LogWriter(int fd, size_t capacity, Callbacks callbacks)
    : fd_(fd), capacity_(capacity), callbacks_(std::move(callbacks)) {
  std::thread([this] { Run(); }).detach();
}

void LogWriter::Push(std::string_view line) {
  absl::MutexLock lock(&mutex_);
  if (waiting_.size() + line.size() > capacity_) return CountDropped(1);
  if (waiting_.empty()) changed_.SignalAll();
  waiting_ += line;
}

bool LogWriter::Flush(absl::Duration patience) {
  absl::MutexLock lock(&mutex_);
  return changed_.WaitUntil(&mutex_, SteadyNow() + patience,
                            [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                              return waiting_.empty() && !writing_;
                            });
}

uint64_t LogWriter::dropped() const {
  absl::MutexLock lock(&mutex_);
  return dropped_;
}

void LogWriter::CountDropped(uint64_t lines) {
  dropped_ += lines;
  untold_ += lines;
}

void LogWriter::Run() {
  absl::Time next_tick = SteadyNow() + kTick;
  while (true) {
    std::string text;
    uint64_t untold = 0;
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      changed_.SignalAll();
      changed_.WaitUntil(&mutex_, next_tick,
                         [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                           return !waiting_.empty();
                         });
      // What was dropped came after all that waits.
      text.swap(waiting_);
      std::swap(untold, untold_);
      writing_ = true;
    }
    const size_t written = Write(text);
    const std::string note = untold == 0 ? "" : callbacks_.dropped_line(untold);
    const bool told = Write(note) == note.size();
    if (written < text.size() || !told) {
      const auto lost = std::count(text.begin() + written, text.end(), '\n');
      absl::MutexLock lock(&mutex_);
      CountDropped(lost);
      if (!told) untold_ += untold;
    }
    if (SteadyNow() >= next_tick) {
      callbacks_.tick();
      next_tick = SteadyNow() + kTick;
    }
  }
}

size_t LogWriter::Write(std::string_view text) const {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = write(fd_, text.data() + written, text.size() - written);
    if (n >= 0) {
      written += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      // Somebody who shares the open file made it non-blocking.
      pollfd polled = {fd_, POLLOUT, 0};
      poll(&polled, 1, -1);
    } else if (errno != EINTR) {
      break;
    }
  }
  return written;
}

}  // namespace quantd
