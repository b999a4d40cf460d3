#include "server/log.h"

// Our fmt, not one of spdlog's own; the packaged spdlog target would pull in a
// shared one.
#ifndef SPDLOG_FMT_EXTERNAL
#define SPDLOG_FMT_EXTERNAL
#endif
#include <grpc/support/log.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cmath>
#include <memory>

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

void SetPattern(spdlog::logger& logger, LogFormat format) {
  if (format == LogFormat::kJson) {
    // The message is the rest of the object.
    logger.set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%fZ","level":"%l",%v})",
                       spdlog::pattern_time_type::utc);
  } else {
    logger.set_pattern("%Y-%m-%dT%H:%M:%S.%fZ %l %v",
                       spdlog::pattern_time_type::utc);
  }
}

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>(
        "quantd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_level(spdlog::level::info);
    made->flush_on(spdlog::level::info);
    SetPattern(*made, LogFormat::kText);
    return made;
  }();
  return *logger;
}

void AppendEscaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
}

void AppendQuoted(std::string& out, std::string_view text) {
  out += '"';
  AppendEscaped(out, text);
  out += '"';
}

bool NeedsQuotes(std::string_view text) {
  return text.empty() ||
         text.find_first_of(" \"\\=\n\t\r") != std::string_view::npos;
}

void AppendValue(std::string& out, const LogField& field, LogFormat format) {
  if (const auto* text = std::get_if<std::string_view>(&field.value)) {
    if (format == LogFormat::kJson || NeedsQuotes(*text)) {
      AppendQuoted(out, *text);
    } else {
      out += *text;
    }
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

void OnGrpcLog(gpr_log_func_args* args) {
  const LogLevel level = args->severity == GPR_LOG_SEVERITY_ERROR
                             ? LogLevel::kWarn
                             : LogLevel::kDebug;
  Log(level, "grpc", {{"message", args->message}});
}

}  // namespace

void ConfigureLog(LogLevel level, LogFormat format) {
  g_format = format;
  Logger().set_level(ToSpdlog(level));
  SetPattern(Logger(), format);
}

bool LogEnabled(LogLevel level) { return Logger().should_log(ToSpdlog(level)); }

void Log(LogLevel level, std::string_view event,
         std::initializer_list<LogField> fields) {
  if (level == LogLevel::kOff || !LogEnabled(level)) return;
  const LogFormat format = g_format;
  std::string line;
  if (format == LogFormat::kJson) {
    line += "\"event\":";
    AppendQuoted(line, event);
  } else {
    line += event;
  }
  for (const LogField& field : fields) {
    if (format == LogFormat::kJson) {
      line += ',';
      AppendQuoted(line, field.key);
      line += ':';
    } else {
      line += ' ';
      line += field.key;
      line += '=';
    }
    AppendValue(line, field, format);
  }
  Logger().log(ToSpdlog(level), spdlog::string_view_t(line));
}

void CaptureGrpcLog() { gpr_set_log_function(OnGrpcLog); }

}  // namespace quantd
