// The servers that are looked at, and what each did since the last look.
#ifndef QUANTD_CLIENT_QUANTCTL_TOP_FLEET_H_
#define QUANTD_CLIENT_QUANTCTL_TOP_FLEET_H_

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/quantctl/top/reading.h"

namespace quantd::quantctl {

struct ServerRow {
  std::string address;
  absl::Status error;  // then the rest is empty
  Reading now;
  std::optional<Activity> activity;  // nothing at the first look
};

class Fleet {
 public:
  static constexpr size_t kMostServers = 64;

  // "HOST:PORT" of metrics pages; a name may stand for many servers, and is
  // looked up each time.
  explicit Fleet(std::vector<std::string> targets)
      : targets_(std::move(targets)) {}

  // A row for each server, at once and in the order of the targets; one for a
  // target whose name cannot be had.
  std::vector<ServerRow> Look(std::chrono::milliseconds patience);

 private:
  const std::vector<std::string> targets_;
  std::map<std::string, Reading> last_;  // by address
};

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_TOP_FLEET_H_
