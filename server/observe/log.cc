#include "server/observe/log.h"

#include <grpc/support/log.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <deque>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "fmt/format.h"
#include "server/gate/steady_time.h"
#include "server/observe/log_sampler.h"
#include "server/observe/log_text.h"

namespace quantd {
namespace {

// Bytes of lines that wait to be written, at most, and what counts beside each
// line for its place in the queue.
constexpr size_t kMostWaiting = 1 << 20;
constexpr size_t kPlace = 256;

std::atomic<LogFormat> g_format{LogFormat::kText};
std::atomic<LogLevel> g_level{LogLevel::kInfo};

void AppendValue(std::string& out, const LogField& field, bool json) {
  if (const auto* text = std::get_if<std::string_view>(&field.value)) {
    out += json ? '"' + EscapeForJson(*text) + '"' : QuoteForText(*text);
  } else if (const auto* n = std::get_if<int64_t>(&field.value)) {
    out += fmt::to_string(*n);
  } else {
    const double d = std::get<double>(field.value);
    // JSON has no word for what is not finite.
    out += json && !std::isfinite(d) ? "null" : fmt::format("{:g}", d);
  }
}

std::string LineOf(LogLevel level, std::string_view event,
                   std::initializer_list<LogField> fields) {
  constexpr std::string_view kNames[] = {"debug", "info", "warning", "error"};
  const bool json = g_format == LogFormat::kJson;
  std::string line = fmt::format(
      fmt::runtime(json ? R"({{"time":"{}","level":"{}","event":"{}")"
                        : "{} {} {}"),
      absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(),
                       absl::UTCTimeZone()),
      kNames[static_cast<int>(level)], event);
  for (const LogField& field : fields) {
    line += json ? ",\"" : " ";
    line.append(field.key) += json ? "\":" : "=";
    AppendValue(line, field, json);
  }
  return line + (json ? "}\n" : "\n");
}

bool WriteToStderr(std::string_view line) {
  while (!line.empty()) {
    const ssize_t n = write(STDERR_FILENO, line.data(), line.size());
    if (n >= 0) {
      line.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      // Somebody who shares the open file made it non-blocking.
      pollfd polled = {STDERR_FILENO, POLLOUT, 0};
      poll(&polled, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

// Lines that wait for the thread that writes them.
class Writer {
 public:
  // Lines that find no room are dropped, so that the first are kept.
  void Add(std::string line) {
    absl::MutexLock lock(&mutex_);
    if (waiting_ + line.size() + kPlace > kMostWaiting) {
      ++dropped_;
      return;
    }
    waiting_ += line.size() + kPlace;
    lines_.push_back(std::move(line));
    changed_.SignalAll();
  }
  // Whether all lines are written, after `patience` at most.
  bool Flush(absl::Duration patience) {
    absl::MutexLock lock(&mutex_);
    return changed_.WaitUntil(&mutex_, SteadyNow() + patience,
                              [this]() { return lines_.empty(); });
  }
  size_t dropped() const {
    absl::MutexLock lock(&mutex_);
    return dropped_;
  }

 private:
  [[noreturn]] void Run();

  mutable absl::Mutex mutex_;
  SteadyCondVar changed_;
  // The first is being written.
  std::deque<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes
  size_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;  // lines
  std::thread thread_{[this] { Run(); }};
};

// Never destroyed, since others log to the end of the process, and the thread
// may be in a write that has no end.
struct Logging {
  LogSampler sampler;
  Writer writer;
};

Logging& TheLog() {
  static Logging* const logging = new Logging;
  return *logging;
}

void TellOfRepeats(absl::Time now) {
  for (const LogSampler::Repeats& r : TheLog().sampler.Close(now)) {
    Log(r.level, "repeated",
        {{"of", r.event}, {"kind", r.kind}, {"times", r.times}});
  }
}

void Writer::Run() {
  size_t told = 0;  // of the dropped lines
  absl::MutexLock lock(&mutex_);
  while (true) {
    const bool any = changed_.WaitUntil(&mutex_, SteadyNow() + absl::Seconds(1),
                                        [this]() { return !lines_.empty(); });
    if (any) {
      const std::string& line = lines_.front();
      // They are told of once lines have room again.
      const size_t untold = waiting_ <= kMostWaiting / 2 ? dropped_ - told : 0;
      mutex_.Unlock();
      const bool written = WriteToStderr(line);
      if (written && untold != 0 &&
          WriteToStderr(
              LineOf(LogLevel::kWarn, "log_dropped", {{"lines", untold}}))) {
        told += untold;
      }
      mutex_.Lock();
      if (!written) ++dropped_;
      waiting_ -= line.size() + kPlace;
      lines_.pop_front();
      changed_.SignalAll();
    }
    mutex_.Unlock();
    TellOfRepeats(SteadyNow());
    mutex_.Lock();
  }
}

void OnGrpcLog(gpr_log_func_args* args) {
  if (args->severity != GPR_LOG_SEVERITY_ERROR) {
    return Log(LogLevel::kDebug, "grpc", {{"message", args->message}});
  }
  const std::string_view file = args->file;
  LogSampled(LogLevel::kWarn, "grpc",
             fmt::format("{}:{}", file.substr(file.rfind('/') + 1), args->line),
             {{"message", args->message}});
  // gRPC aborts as soon as this returns.
  if (std::string_view(args->message).starts_with("assertion failed")) {
    FlushLog(absl::Seconds(1));
  }
}

}  // namespace

void ConfigureLog(LogLevel level, LogFormat format) {
  g_format = format;
  SetLogLevel(level);
}

void SetLogLevel(LogLevel level) { g_level = level; }

bool LogEnabled(LogLevel level) {
  return level != LogLevel::kOff && level >= g_level;
}

void Log(LogLevel level, std::string_view event,
         std::initializer_list<LogField> fields) {
  if (LogEnabled(level)) TheLog().writer.Add(LineOf(level, event, fields));
}

void LogSampled(LogLevel level, std::string_view event, std::string_view kind,
                std::initializer_list<LogField> fields) {
  if (!LogEnabled(level)) return;
  if (level == LogLevel::kError || LogEnabled(LogLevel::kDebug) ||
      TheLog().sampler.Admit(level, event, kind, SteadyNow())) {
    Log(level, event, fields);
  }
}

bool FlushLog(absl::Duration patience) {
  TellOfRepeats(absl::InfiniteFuture());
  return TheLog().writer.Flush(patience);
}

LogLosses ReadLogLosses() {
  return {TheLog().writer.dropped(), TheLog().sampler.repeated()};
}

void CaptureGrpcLog() { gpr_set_log_function(OnGrpcLog); }

}  // namespace quantd
