// Structured log lines on stderr: a level, an event and fields. Text
// ("key=value") or JSON, one line each.
//
// Lines are written by a thread of their own, so that a reader who does not
// read stops nothing; those that find no room are dropped and counted, and a
// line log_dropped tells how many when lines can be written again.
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
#include "server/observe/log_level.h"

namespace quantd {

enum class LogFormat { kText, kJson };

// Until this is called: kInfo, kText.
void ConfigureLog(LogLevel level, LogFormat format);
// From now on.
void SetLogLevel(LogLevel level);
// For callers that would spend time to make the fields.
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

// For lines that come as often as peers like. Of one event and kind, such as
// the reason of a refusal, the first few of each stretch of time are written
// and a line `repeated` with the number of the rest, see LogSampler; but all of
// kError, which peers do not cause, and all while kDebug is enabled. Kinds are
// few: no text of a peer.
void LogSampled(LogLevel level, std::string_view event, std::string_view kind,
                std::initializer_list<LogField> fields);

// Whether no line waits to be written, after `patience` at most. For the end of
// the process, which waits no longer for who reads them.
bool FlushLog(absl::Duration patience);

// Lines that were not written, since the start.
struct LogLosses {
  uint64_t unread = 0;    // no room, since nobody reads
  uint64_t repeated = 0;  // counted by LogSampled
};
LogLosses ReadLogLosses();

// Sends gRPC's own messages to this log. Process-wide.
void CaptureGrpcLog();

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_LOG_H_
