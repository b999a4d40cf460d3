#include "server/memory/peers.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

#include "absl/strings/numbers.h"
#include "fmt/format.h"

namespace quantd {
namespace {

// What the kernel calls whomever it has no number for.
constexpr uid_t kNobody = 65534;

std::string Read(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

bool KnowsAllUsers(const std::string& uid_map) {
  // Users here, the same outside, and how many.
  std::istringstream lines(uid_map);
  uint64_t here = 0;
  uint64_t outside = 0;
  uint64_t count = 0;
  uint64_t known = 0;
  while (lines >> here >> outside >> count) known += count;
  return known >= std::numeric_limits<uid_t>::max();
}

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
  uid_t nobody = 0;
  if (!absl::SimpleAtoi(Read("/proc/sys/kernel/overflowuid"), &nobody)) {
    nobody = kNobody;
  }
  if (std::find(found.begin(), found.end(), nobody) != found.end() &&
      !KnowsAllUsers(Read("/proc/self/uid_map"))) {
    return absl::InvalidArgumentError(fmt::format(
        "--memory-peers: expected users that this user namespace knows, got "
        "{}, which all others are here",
        nobody));
  }
  return found;
}

}  // namespace quantd
