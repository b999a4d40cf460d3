// How loud a line of the log is.
#ifndef QUANTD_SERVER_OBSERVE_LOG_LEVEL_H_
#define QUANTD_SERVER_OBSERVE_LOG_LEVEL_H_

namespace quantd {

// By the numbers of the library that writes the lines.
enum class LogLevel { kDebug = 1, kInfo, kWarn, kError, kOff = 6 };

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_LOG_LEVEL_H_
