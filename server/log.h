// Structured log lines on stderr: a level, an event and fields. Text
// ("key=value") or JSON, one line each.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_LOG_H_
#define QUANTD_SERVER_LOG_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

namespace quantd {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };
enum class LogFormat { kText, kJson };

// Until this is called: kInfo, kText.
void ConfigureLog(LogLevel level, LogFormat format);
// For callers that would spend time to make the fields.
bool LogEnabled(LogLevel level);

// The views must live until Log returns.
struct LogField {
  std::string_view key;
  std::variant<std::string_view, int64_t, double> value;

  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v)
      : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, const std::string& v)
      : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, double v) : key(k), value(v) {}
  template <typename Int>
  requires std::is_integral_v<Int> LogField(std::string_view k, Int v)
      : key(k), value(static_cast<int64_t>(v)) {}
};

// `event` is one word, the same for every line of its kind.
void Log(LogLevel level, std::string_view event,
         std::initializer_list<LogField> fields);

// Sends gRPC's own messages to this log. Process-wide.
void CaptureGrpcLog();

}  // namespace quantd

#endif  // QUANTD_SERVER_LOG_H_
