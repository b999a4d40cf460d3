#include "server/observe/log.h"

// Our fmt, not one of spdlog's own; the packaged spdlog target would pull in a
// shared one.
#ifndef SPDLOG_FMT_EXTERNAL
#define SPDLOG_FMT_EXTERNAL
#endif
#include <grpc/support/log.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <mutex>
#include <utility>

#include "server/gate/steady_time.h"
#include "server/observe/log_sampler.h"
#include "server/observe/log_text.h"
#include "server/observe/log_writer.h"

namespace quantd {
namespace {

std::atomic<LogFormat> g_format{LogFormat::kText};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

void SetPattern(spdlog::sinks::sink& sink, LogFormat format) {
  const char* const pattern =
      format == LogFormat::kJson
          // The message is the rest of the object.
          ? R"({"time":"%Y-%m-%dT%H:%M:%S.%fZ","level":"%l",%v})"
          : "%Y-%m-%dT%H:%M:%S.%fZ %l %v";
  sink.set_formatter(std::make_unique<spdlog::pattern_formatter>(
      pattern, spdlog::pattern_time_type::utc));
}

// spdlog's own asynchronous logger waits, when it ends, for lines that nobody
// reads; so spdlog makes the lines and LogWriter writes them.
class WriterSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit WriterSink(LogWriter::Callbacks callbacks)
      : writer_(
            new LogWriter(STDERR_FILENO, kMostWaiting, std::move(callbacks))) {}

  LogWriter& writer() { return *writer_; }
  // The line as it would be written.
  std::string Format(LogLevel level, std::string_view message) {
    const std::lock_guard lock(mutex_);
    return ToLine(spdlog::details::log_msg("", ToSpdlog(level),
                                           spdlog::string_view_t(message)));
  }

 private:
  static constexpr size_t kMostWaiting = 1 << 20;

  void sink_it_(const spdlog::details::log_msg& message) override {
    writer_->Push(ToLine(message));
  }
  void flush_() override {}
  std::string ToLine(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    return std::string(line.data(), line.size());
  }

  LogWriter* const writer_;
};

std::string MessageOf(std::string_view event,
                      std::initializer_list<LogField> fields);
void TellOfRepeats(absl::Time now);

// Never destroyed, since others log to the end of the process.
struct Logging {
  LogSampler sampler;
  const std::shared_ptr<WriterSink> sink =
      std::make_shared<WriterSink>(LogWriter::Callbacks{
          [this](uint64_t lines) {
            return sink->Format(LogLevel::kWarn,
                                MessageOf("log_dropped", {{"lines", lines}}));
          },
          [] { TellOfRepeats(SteadyNow()); }});
  spdlog::logger logger{"quantd", sink};

  Logging() {
    logger.set_level(spdlog::level::info);
    SetPattern(*sink, LogFormat::kText);
  }
};

Logging& TheLog() {
  static Logging* const logging = new Logging;
  return *logging;
}

void AppendValue(std::string& out, const LogField& field, LogFormat format) {
  if (const auto* text = std::get_if<std::string_view>(&field.value)) {
    out += format == LogFormat::kJson ? '"' + EscapeForJson(*text) + '"'
                                      : QuoteForText(*text);
  } else if (const auto* n = std::get_if<int64_t>(&field.value)) {
    fmt::format_to(std::back_inserter(out), "{}", *n);
  } else {
    const double d = std::get<double>(field.value);
    // JSON has no word for what is not finite.
    if (format == LogFormat::kJson && !std::isfinite(d)) {
      out += "null";
    } else {
      fmt::format_to(std::back_inserter(out), "{:g}", d);
    }
  }
}

std::string MessageOf(std::string_view event,
                      std::initializer_list<LogField> fields) {
  const LogFormat format = g_format;
  std::string message;
  if (format == LogFormat::kJson) {
    message.append("\"event\":\"").append(event) += '"';
  } else {
    message += event;
  }
  for (const LogField& field : fields) {
    if (format == LogFormat::kJson) {
      message.append(",\"").append(field.key).append("\":");
    } else {
      message.append(" ").append(field.key) += '=';
    }
    AppendValue(message, field, format);
  }
  return message;
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
  TheLog().logger.set_level(ToSpdlog(level));
  SetPattern(*TheLog().sink, format);
}

void SetLogLevel(LogLevel level) { TheLog().logger.set_level(ToSpdlog(level)); }

bool LogEnabled(LogLevel level) {
  return TheLog().logger.should_log(ToSpdlog(level));
}

void Log(LogLevel level, std::string_view event,
         std::initializer_list<LogField> fields) {
  if (level == LogLevel::kOff || !LogEnabled(level)) return;
  TheLog().logger.log(ToSpdlog(level),
                      spdlog::string_view_t(MessageOf(event, fields)));
}

void LogSampled(LogLevel level, std::string_view event, std::string_view kind,
                std::initializer_list<LogField> fields) {
  if (level == LogLevel::kOff || !LogEnabled(level)) return;
  if (level != LogLevel::kError && !LogEnabled(LogLevel::kDebug) &&
      !TheLog().sampler.Admit(level, event, kind, SteadyNow())) {
    return;
  }
  Log(level, event, fields);
}

bool FlushLog(absl::Duration patience) {
  TellOfRepeats(absl::InfiniteFuture());
  return TheLog().sink->writer().Flush(patience);
}

LogLosses ReadLogLosses() {
  return {TheLog().sink->writer().dropped(), TheLog().sampler.repeated()};
}

void CaptureGrpcLog() { gpr_set_log_function(OnGrpcLog); }

}  // namespace quantd
