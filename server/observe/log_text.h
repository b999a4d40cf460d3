// Text of peers as part of a log line: whatever bytes they send, the line is
// valid UTF-8, stays one line, and moves nothing on a terminal.
#ifndef QUANTD_SERVER_OBSERVE_LOG_TEXT_H_
#define QUANTD_SERVER_OBSERVE_LOG_TEXT_H_

#include <string>
#include <string_view>

namespace quantd {

// As it stands where that is clear, else between quotes with fmt's escapes:
// \" \\ \n \r \t, and \xXX, \uXXXX or \UXXXXXXXX for other characters that move
// the cursor or hide or reorder what stands beside them, and for bytes that are
// no valid UTF-8.
std::string QuoteForText(std::string_view text);
// The inside of a JSON string, with the same escapes. Those that JSON does not
// know have a backslash more: they are read as they stand above.
std::string EscapeForJson(std::string_view text);

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_LOG_TEXT_H_
