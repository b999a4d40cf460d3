// A unix socket at which clients on this host hand in descriptors of memory to
// share, and get names for them. It expects hostile clients, and does not speak
// gRPC.
//
// Threads: one of its own runs everything. Open and the destructor block; the
// rest may be used from any thread.
#ifndef QUANTD_SERVER_MEMORY_DOOR_H_
#define QUANTD_SERVER_MEMORY_DOOR_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/memory/regions.h"
#include "server/net/listen_socket.h"

namespace quantd {

struct DoorLimits {
  size_t bytes = 0;             // limit of all mapped regions
  size_t connection_bytes = 0;  // limit of what one connection brings
  size_t regions = 1024;        // limit of regions and events
  size_t connection_regions = 64;
  size_t connections = 256;
  // Time that a connection has until its first offer.
  absl::Duration patience = absl::Seconds(5);
};

class MemoryDoor {
 public:
  // Listens at `path` when it returns, for processes of the users `peers` only.
  // UNAVAILABLE if the path cannot be used. `regions` must outlive it.
  static absl::StatusOr<std::unique_ptr<MemoryDoor>> Open(
      const std::string& path, std::vector<uid_t> peers,
      const DoorLimits& limits, Regions* regions);
  // Closes every connection, which removes the names of its regions.
  ~MemoryDoor();
  MemoryDoor(const MemoryDoor&) = delete;

  const RegionUse& use() const { return *use_; }
  uint64_t refusals() const { return refusals_; }
  const DoorLimits& limits() const { return limits_; }

 private:
  struct Connection;

  MemoryDoor(ListenSockets sockets, std::vector<uid_t> peers,
             const DoorLimits& limits, Regions* regions);
  void Run();
  void Accept();
  // Receives from a connection. Returns false if it must be closed.
  bool Receive(Connection& connection);
  wire::OfferReply Take(Connection& connection);
  bool Send(const Connection& connection, const wire::OfferReply& reply);
  void Forget(const Connection& connection);

  ListenSockets sockets_;
  const std::vector<uid_t> peers_;
  const DoorLimits limits_;
  Regions* const regions_;
  const std::shared_ptr<RegionUse> use_ = std::make_shared<RegionUse>();
  std::atomic<uint64_t> refusals_ = 0;
  std::atomic<bool> stopping_ = false;
  std::list<Connection> connections_;  // used by the thread only
  std::thread thread_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_MEMORY_DOOR_H_
