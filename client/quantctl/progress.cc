#include "client/quantctl/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "client/quantctl/report.h"
#include "client/quantctl/terminal/terminal.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::chrono::seconds kLogLine{10};

std::string ClockText(double seconds) {
  const auto s = static_cast<int64_t>(std::ceil(seconds));
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

}  // namespace

std::string ProgressLine(uint64_t done, uint64_t total, double seconds,
                         std::string_view name, size_t width) {
  std::string line = ProgressText(done, total, seconds);
  constexpr size_t kLeastBar = 8;
  constexpr size_t kMostBar = 24;
  if (width >= line.size() + kLeastBar + 3) {
    const size_t bar = std::min(kMostBar, width - line.size() - 3);
    const auto full = static_cast<size_t>(
        total == 0 ? 0
                   : static_cast<double>(std::min(done, total)) *
                         static_cast<double>(bar) / static_cast<double>(total));
    line = fmt::format("[{}{}] {}", std::string(full, '#'),
                       std::string(bar - full, '.'), line);
  }
  line += fmt::format(" {}", name);
  line.resize(std::min(line.size(), width));
  return line;
}

std::string ProgressText(uint64_t done, uint64_t total, double seconds) {
  std::string text = fmt::format("{} of {}", BytesText(done), BytesText(total));
  if (done == 0 || seconds <= 0) return text;
  const double rate = static_cast<double>(done) / seconds;
  const double left = static_cast<double>(total - std::min(done, total)) / rate;
  return text + fmt::format(", {}/s, {} left",
                            BytesText(static_cast<uint64_t>(rate)),
                            ClockText(left));
}

Progress::Progress(uint64_t total)
    : total_(total), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
}

void Progress::Name(std::string_view name) {
  const std::lock_guard lock(mutex_);
  name_ = name;
  if (terminal_) Show(Clock::now());
}

void Progress::Add(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  done_ += bytes;
  const auto now = Clock::now();
  if (terminal_ ? now - shown_ >= kRedraw : now - shown_ >= kLogLine) Show(now);
}

void Progress::Show(Clock::time_point now) {
  shown_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  if (!terminal_) {
    fmt::print(stderr, "quantctl: {}, at {}\n",
               ProgressText(done_, total_, seconds), name_);
    return;
  }
  // Leaves one column free, because a terminal wraps after its last column.
  fmt::print(stderr, "\r\x1b[K{}",
             ProgressLine(done_, total_, seconds, name_, WidthOf(stderr) - 1));
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace quantd::quantctl
