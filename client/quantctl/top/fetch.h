// Fetches the metrics pages of servers.
#ifndef QUANTD_CLIENT_QUANTCTL_TOP_FETCH_H_
#define QUANTD_CLIENT_QUANTCTL_TOP_FETCH_H_

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace quantd::quantctl {

// No server's page is as long as this.
inline constexpr size_t kLongestPage = 4 << 20;

// The numeric addresses behind "HOST:PORT", which may be a DNS name of many
// servers. INVALID_ARGUMENT for what is no address, UNAVAILABLE for a name that
// nobody knows.
absl::StatusOr<std::vector<std::string>> Resolve(const std::string& target);

// The body of http://ADDRESS/metrics, of what Resolve gave. UNAVAILABLE, in a
// few words, for all that is no whole page of status 200 within `patience`.
absl::StatusOr<std::string> FetchPage(const std::string& address,
                                      std::chrono::milliseconds patience);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_TOP_FETCH_H_
