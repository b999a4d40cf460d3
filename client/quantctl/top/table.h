// What `quantctl top` shows of servers.
#ifndef QUANTD_CLIENT_QUANTCTL_TOP_TABLE_H_
#define QUANTD_CLIENT_QUANTCTL_TOP_TABLE_H_

#include <string>
#include <vector>

#include "client/quantctl/top/fleet.h"

namespace quantd::quantctl {

// Lines of at most 80 columns, of ASCII that does not move a cursor.
std::vector<std::string> TopTable(const std::vector<ServerRow>& rows);
// One line of JSON.
std::string TopJson(const std::vector<ServerRow>& rows);

// In six columns: "1.23", "12345", "1.2e9" is "1.2G".
std::string ShortNumber(double value);
// "180us", "2.50ms", "1.20s"; "-" for a negative one.
std::string ShortDuration(double seconds);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_TOP_TABLE_H_
