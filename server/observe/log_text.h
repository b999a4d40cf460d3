// Text of peers as part of a log line: whatever bytes they send, the line is
// valid UTF-8, stays one line, and moves nothing on a terminal.
#ifndef QUANTD_SERVER_OBSERVE_LOG_TEXT_H_
#define QUANTD_SERVER_OBSERVE_LOG_TEXT_H_

#include <string>
#include <string_view>

namespace quantd {

// The inside of a JSON string. Quotes and backslashes have a backslash before
// them; control characters (C0, DEL, C1) and those that reorder or hide what
// stands beside them are \uXXXX; a byte that is not part of valid UTF-8 is the
// four characters \xXX, for which JSON needs a backslash more.
std::string EscapeForJson(std::string_view text);
// As it stands where that is clear, else the same escapes (an invalid byte as
// \xXX) between quotes.
std::string QuoteForText(std::string_view text);

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_LOG_TEXT_H_
