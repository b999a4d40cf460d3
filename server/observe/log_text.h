// Escapes text from peers for a log line: whatever bytes they send, the line is
// valid UTF-8, stays one line, and has no effect on a terminal.
#ifndef QUANTD_SERVER_OBSERVE_LOG_TEXT_H_
#define QUANTD_SERVER_OBSERVE_LOG_TEXT_H_

#include <string>
#include <string_view>

#include "fmt/format.h"

namespace quantd {

// Returns plain text unchanged, and other text in quotes with fmt's escapes: \"
// \\ \n \r \t, and \xXX, \uXXXX or \UXXXXXXXX for bytes that are not valid
// UTF-8 and for characters that move the cursor, are invisible or reorder their
// neighbours.
inline std::string QuoteForText(std::string_view text) {
  const std::string quoted = fmt::format("{:?}", text);
  const bool clear = !text.empty() && quoted.size() == text.size() + 2 &&
                     text.find_first_of(" =") == std::string_view::npos;
  return clear ? std::string(text) : quoted;
}
// Returns the inside of a JSON string, with the same escapes. Those that JSON
// does not know get another backslash, so that a reader sees them as above.
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
