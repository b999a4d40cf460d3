// A region of memory as one server knows it: a connection to the server's
// memory socket (proto/memory/offer.h). The region is shared as long as the
// connection lives.
#ifndef QUANTD_CLIENT_MEMORY_DOOR_CONNECTION_H_
#define QUANTD_CLIENT_MEMORY_DOOR_CONNECTION_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "proto/memory/offer.h"

namespace quantd::client {

struct DoorAddress {
  std::string path;  // of a unix socket
  // Timeout for each answer of the server.
  std::chrono::milliseconds patience{20'000};
};

// Thread-safe.
class DoorConnection {
 public:
  // Hands in memory; `descriptor` is -1 for an offer without one. UNAVAILABLE
  // if nobody answers, RESOURCE_EXHAUSTED beyond the server's limit,
  // PERMISSION_DENIED for a user without permission, INVALID_ARGUMENT for
  // memory that is refused.
  static absl::StatusOr<std::shared_ptr<DoorConnection>> Share(
      const DoorAddress& door, const wire::Offer& offer, int descriptor);
  ~DoorConnection();
  DoorConnection(const DoorConnection&) = delete;

  // The region's name, for requests.
  const std::string& name() const { return name_; }

  // Ends sharing for good, and waits until the server no longer uses the
  // region. Returns false if `patience` passes first.
  bool End(std::chrono::milliseconds patience);

 private:
  DoorConnection(int socket, std::string name)
      : socket_(socket), name_(std::move(name)) {}

  const int socket_;
  const std::string name_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_MEMORY_DOOR_CONNECTION_H_
