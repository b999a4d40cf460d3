// Texts for people: names from untrusted files, made safe for a terminal, and
// sizes.
#ifndef QUANTD_CLIENT_FILES_SHOWN_NAME_H_
#define QUANTD_CLIENT_FILES_SHOWN_NAME_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace quantd {

// Whether the text has C0, DEL or C1 control characters. UTF-8 encodes C1 as C2
// 80 to C2 9F.
bool HasControl(std::string_view text);

// Returns the name itself. If it has control characters or is not UTF-8,
// returns it escaped as in JSON.
std::string ShownName(const std::string& name);

std::string BytesText(uint64_t bytes);  // "1.50 MiB"

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_SHOWN_NAME_H_
