// Names that strangers chose, as a terminal may see them.
#ifndef QUANTD_CLIENT_FILES_SHOWN_NAME_H_
#define QUANTD_CLIENT_FILES_SHOWN_NAME_H_

#include <string>
#include <string_view>

namespace quantd {

// C0, DEL and C1, which UTF-8 writes as C2 80 to C2 9F.
bool HasControl(std::string_view text);

// The name itself, or, where it has control characters or is no UTF-8, what
// JSON would write of it.
std::string ShownName(const std::string& name);

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_SHOWN_NAME_H_
