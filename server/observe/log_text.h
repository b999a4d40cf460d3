// Text of peers as part of a log line: whatever bytes they send, the line is
// valid UTF-8, stays one line, and moves nothing on a terminal.
#ifndef QUANTD_SERVER_OBSERVE_LOG_TEXT_H_
#define QUANTD_SERVER_OBSERVE_LOG_TEXT_H_

#include <string>
#include <string_view>

#include "fmt/format.h"

namespace quantd {

// Text that is clear as it stands, other text between quotes with fmt's
// escapes:
// \" \\ \n \r \t, and \xXX, \uXXXX or \UXXXXXXXX for other characters that move
// the cursor or hide or reorder what stands beside them, and for bytes that are
// no valid UTF-8.
inline std::string QuoteForText(std::string_view text) {
  const std::string quoted = fmt::format("{:?}", text);
  const bool clear = !text.empty() && quoted.size() == text.size() + 2 &&
                     text.find_first_of(" =") == std::string_view::npos;
  return clear ? std::string(text) : quoted;
}
// The inside of a JSON string, with the same escapes. Those that JSON does not
// know have a backslash more: they are read as they stand above.
inline std::string EscapeForJson(std::string_view text) {
  const std::string quoted = fmt::format("{:?}", text);
  std::string out;
  for (size_t i = 1; i + 1 < quoted.size(); ++i) {
    out += quoted[i];
    if (quoted[i] != '\\') continue;
    ++i;
    if (quoted[i] == 'x' || quoted[i] == 'U') out += '\\';
    out += quoted[i];
  }
  return out;
}

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_LOG_TEXT_H_
