// Shows the progress of a long command on stderr.
#ifndef QUANTD_CLIENT_QUANTCTL_PROGRESS_H_
#define QUANTD_CLIENT_QUANTCTL_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace quantd::quantctl {

// "1.50 GiB of 4.00 GiB, 300.00 MiB/s, 0:08 left". Without rate and time before
// the first byte.
std::string ProgressText(uint64_t done, uint64_t total, double seconds);

// A bar, ProgressText() and the name of the current tensor. If not all fit into
// `width` columns, the text has priority, then the bar.
std::string ProgressLine(uint64_t done, uint64_t total, double seconds,
                         std::string_view name, size_t width);

// Shows a bar if stderr is a terminal. Otherwise prints an occasional line, but
// none for a short command. Thread-safe.
class Progress {
 public:
  // `total` is the number of bytes that will be read.
  explicit Progress(uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;

  // Sets the name of the current tensor to show.
  void Name(std::string_view name);
  void Add(uint64_t bytes);

 private:
  using Clock = std::chrono::steady_clock;
  void Show(Clock::time_point now);

  const uint64_t total_;
  const bool terminal_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  Clock::time_point shown_ = start_;
  bool drawn_ = false;
  uint64_t done_ = 0;
  std::string name_;
};

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_PROGRESS_H_
