// How the servers of a client are set, asked now and then.
#ifndef QUANTD_CLIENT_CALL_SERVER_SETTINGS_H_
#define QUANTD_CLIENT_CALL_SERVER_SETTINGS_H_

#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/server_info.h"

namespace quantd::client {

// Of one server. Those of one client are taken to be alike: of others a part is
// refused, and goes twice.
struct ServerSettings {
  bool reduces = false;
  float estimate = 0;
  std::vector<size_t> memory;  // of each device that serves
};

// Thread-safe.
class KnownSettings {
 public:
  // `ask` asks a server, where nothing fresh is known: it may have come back
  // with others. Nothing: it did not answer.
  std::optional<ServerSettings> Learn(
      absl::FunctionRef<absl::StatusOr<ServerInfo>()> ask);

 private:
  std::mutex mutex_;
  std::chrono::steady_clock::time_point asked_;
  std::optional<ServerSettings> known_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_CALL_SERVER_SETTINGS_H_
