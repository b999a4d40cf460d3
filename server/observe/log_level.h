// Severity of a log line.
#ifndef QUANTD_SERVER_OBSERVE_LOG_LEVEL_H_
#define QUANTD_SERVER_OBSERVE_LOG_LEVEL_H_

namespace quantd {

// Numbered as in spdlog.
enum class LogLevel { kDebug = 1, kInfo, kWarn, kError, kOff = 6 };

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_LOG_LEVEL_H_
