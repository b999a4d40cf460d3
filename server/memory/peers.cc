#include "server/memory/peers.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdint>

#include "absl/strings/numbers.h"
#include "fmt/format.h"

namespace quantd {

absl::StatusOr<std::vector<uid_t>> FindMemoryPeers(
    const std::vector<std::string>& users) {
  std::vector<uid_t> found;
  for (const std::string& user : users) {
    uint32_t number = 0;
    if (absl::SimpleAtoi(user, &number)) {
      found.push_back(number);
      continue;
    }
    passwd entry = {};
    passwd* result = nullptr;
    std::vector<char> text(16 << 10);
    getpwnam_r(user.c_str(), &entry, text.data(), text.size(), &result);
    if (result == nullptr) {
      return absl::InvalidArgumentError(fmt::format(
          "--memory-peers: expected users of this machine, got '{}'", user));
    }
    found.push_back(entry.pw_uid);
  }
  if (found.empty()) found.push_back(geteuid());
  return found;
}

}  // namespace quantd
