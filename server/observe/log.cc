#include "server/observe/log.h"

// Our fmt, not spdlog's own; the packaged spdlog target would pull in a shared
// one.
#ifndef SPDLOG_FMT_EXTERNAL
#define SPDLOG_FMT_EXTERNAL
#endif
#include <grpc/support/log.h>
#include <poll.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/periodic_worker.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <memory>

#include "absl/time/clock.h"
#include "server/gate/steady_time.h"
#include "server/observe/log_sampler.h"
#include "server/observe/log_text.h"

namespace quantd {
namespace {

// Most bytes of lines that wait to be written, and the overhead counted for
// each line's place in the queue.
constexpr size_t kMostWaiting = 1 << 20;
constexpr size_t kPlace = 256;

std::atomic<LogFormat> g_format{LogFormat::kText};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  return static_cast<spdlog::level::level_enum>(level);
}

void AppendValue(std::string& out, const LogField& field, bool json) {
  if (const auto* text = std::get_if<std::string_view>(&field.value)) {
    out += json ? '"' + EscapeForJson(*text) + '"' : QuoteForText(*text);
  } else if (const auto* n = std::get_if<int64_t>(&field.value)) {
    out += fmt::to_string(*n);
  } else {
    const double d = std::get<double>(field.value);
    // JSON cannot represent numbers that are not finite.
    out += json && !std::isfinite(d) ? "null" : fmt::format("{:g}", d);
  }
}

std::string MessageOf(std::string_view event,
                      std::initializer_list<LogField> fields) {
  const bool json = g_format == LogFormat::kJson;
  std::string message(json ? "\"event\":\"" : "");
  message.append(event) += json ? "\"" : "";
  for (const LogField& field : fields) {
    message += json ? ",\"" : " ";
    message.append(field.key) += json ? "\":" : "=";
    AppendValue(message, field, json);
  }
  return message;
}

// Writes to standard error, on the queue's thread only.
class StderrSink final
    : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  // Reserves room for a line. Returns false if the queue is full. The earliest
  // lines are kept, while spdlog's own queue would drop them.
  bool Take(size_t bytes) {
    if ((waiting_ += bytes + kPlace) <= kMostWaiting) return true;
    waiting_ -= bytes + kPlace;
    ++dropped_;
    return false;
  }
  bool idle() const { return waiting_ == 0; }
  size_t dropped() const { return dropped_; }

 private:
  using Message = spdlog::details::log_msg;

  void sink_it_(const Message& message) override {
    if (!Write(message)) ++dropped_;
    // Reported once lines have room again.
    const size_t untold = dropped_ - told_;
    if (untold != 0 && waiting_ <= kMostWaiting / 2 &&
        Write(Message("", spdlog::level::warn,
                      MessageOf("log_dropped", {{"lines", untold}})))) {
      told_ += untold;
    }
    waiting_ -= message.payload.size() + kPlace;
  }
  void flush_() override {}

  bool Write(const Message& message) {
    spdlog::memory_buf_t line;
    (g_format == LogFormat::kJson ? json_ : text_).format(message, line);
    for (size_t written = 0; written < line.size();) {
      const ssize_t n =
          write(STDERR_FILENO, line.data() + written, line.size() - written);
      if (n >= 0) {
        written += static_cast<size_t>(n);
      } else if (errno == EAGAIN) {
        // Another process that shares the open file made it non-blocking.
        pollfd polled = {STDERR_FILENO, POLLOUT, 0};
        poll(&polled, 1, -1);
      } else if (errno != EINTR) {
        return false;
      }
    }
    return true;
  }

  std::atomic<size_t> waiting_ = 0;  // bytes
  std::atomic<size_t> dropped_ = 0;  // lines
  size_t told_ = 0;
  spdlog::pattern_formatter text_{"%Y-%m-%dT%H:%M:%S.%fZ %l %v",
                                  spdlog::pattern_time_type::utc};
  // The message is the rest of the object.
  spdlog::pattern_formatter json_{
      R"({"time":"%Y-%m-%dT%H:%M:%S.%fZ","level":"%l",%v})",
      spdlog::pattern_time_type::utc};
};

void TellOfRepeats(absl::Time now);

// Never destroyed: other threads log until the process ends, and its own thread
// may be in a write that never ends.
struct Logging {
  LogSampler sampler;
  const std::shared_ptr<StderrSink> sink = std::make_shared<StderrSink>();
  const std::shared_ptr<spdlog::details::thread_pool> queue =
      std::make_shared<spdlog::details::thread_pool>(kMostWaiting / kPlace, 1);
  const std::shared_ptr<spdlog::async_logger> logger =
      std::make_shared<spdlog::async_logger>(
          "", sink, queue, spdlog::async_overflow_policy::overrun_oldest);
  const spdlog::details::periodic_worker reports{
      [] { TellOfRepeats(SteadyNow()); }, std::chrono::seconds(1)};
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
  TheLog().logger->set_level(ToSpdlog(level));
}

bool LogEnabled(LogLevel level) {
  return level != LogLevel::kOff &&
         TheLog().logger->should_log(ToSpdlog(level));
}

void Log(LogLevel level, std::string_view event,
         std::initializer_list<LogField> fields) {
  if (!LogEnabled(level)) return;
  const std::string message = MessageOf(event, fields);
  if (TheLog().sink->Take(message.size())) {
    TheLog().logger->log(ToSpdlog(level), spdlog::string_view_t(message));
  }
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
  const absl::Time until = SteadyNow() + patience;
  while (!TheLog().sink->idle()) {
    if (SteadyNow() >= until) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

LogLosses ReadLogLosses() {
  return {TheLog().sink->dropped(), TheLog().sampler.repeated()};
}

void CaptureGrpcLog() { gpr_set_log_function(OnGrpcLog); }

}  // namespace quantd
