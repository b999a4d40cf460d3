// A region of memory that is shared with one server, and the connection to the
// server's memory socket that keeps it shared (proto/memory/offer.h).
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
  std::string path;  // of the server's memory socket
  // Timeout for each answer of the server.
  std::chrono::milliseconds patience{20'000};
};

// A connection that shares one region. Thread-safe.
class DoorConnection {
 public:
  // Offers memory to the server. `descriptor` is -1 if the offer needs none.
  // Returns UNAVAILABLE if no server answers, RESOURCE_EXHAUSTED beyond the
  // server's limit, PERMISSION_DENIED for a user without permission, and
  // INVALID_ARGUMENT for memory that the server refuses.
  static absl::StatusOr<std::shared_ptr<DoorConnection>> Share(
      const DoorAddress& door, const wire::Offer& offer, int descriptor);
  ~DoorConnection();
  DoorConnection(const DoorConnection&) = delete;

  // The region's name in requests.
  const std::string& name() const { return name_; }

  // Ends sharing for good. Waits until the server no longer uses the region.
  // Returns false if that takes longer than `patience`.
  bool End(std::chrono::milliseconds patience);

 private:
  DoorConnection(int socket, std::string name)
      : socket_(socket), name_(std::move(name)) {}

  const int socket_;
  const std::string name_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_MEMORY_DOOR_CONNECTION_H_
