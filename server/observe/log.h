// Structured log lines on stderr: a level, an event and fields, as text
// ("key=value") or JSON, one line each.
//
// A thread of its own writes the lines, so a reader that does not read stops
// nothing. Lines for which the queue has no room are dropped and counted; a
// line log_dropped tells the count when lines can be written again.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_OBSERVE_LOG_H_
#define QUANTD_SERVER_OBSERVE_LOG_H_

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <variant>

#include "absl/time/time.h"
#include "server/observe/log_sampler.h"

namespace quantd {

enum class LogFormat { kText, kJson };

// The defaults are kInfo and kText.
void ConfigureLog(LogLevel level, LogFormat format);
// Whether lines of that level are written, for callers that would spend time on
// making the fields.
bool LogEnabled(LogLevel level);

// The views must live until Log returns.
struct LogField {
  std::string_view key;
  std::variant<std::string_view, int64_t, double> value;

  template <typename Text>
  requires std::is_convertible_v<Text, std::string_view> LogField(
      std::string_view k, const Text& v)
      : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, double v) : key(k), value(v) {}
  template <typename Int>
  requires std::is_integral_v<Int> LogField(std::string_view k, Int v)
      : key(k), value(static_cast<int64_t>(v)) {}
};

// `event` is one word, the same for every line of its kind.
void Log(LogLevel level, std::string_view event,
         std::initializer_list<LogField> fields);

// Logs a line that peers can cause as often as they like. In each window only
// the first lines of an event and kind are written, then a line `repeated` with
// the number of the rest (see LogSampler). Lines of kError, which peers cannot
// cause, are all written, and so are all lines while kDebug is enabled. `kind`,
// such as the reason of a refusal, must be one of a few: never a peer's text.
void LogSampled(LogLevel level, std::string_view event, std::string_view kind,
                std::initializer_list<LogField> fields);

// Waits up to `patience` until all lines are written, and returns whether they
// are. For the end of the process.
bool FlushLog(absl::Duration patience);

// Number of lines that were not written since the start.
struct LogLosses {
  uint64_t unread = 0;    // dropped because nobody reads
  uint64_t repeated = 0;  // suppressed by LogSampled
};
LogLosses ReadLogLosses();

// Sends gRPC's own messages to this log, in the whole process.
void CaptureGrpcLog();

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_LOG_H_
