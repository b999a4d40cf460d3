// How loud a line of the log is.
#ifndef QUANTD_SERVER_OBSERVE_LOG_LEVEL_H_
#define QUANTD_SERVER_OBSERVE_LOG_LEVEL_H_

namespace quantd {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_LOG_LEVEL_H_
