// One accepted connection, seen from its socket. gRPC owns the descriptor and
// tells nobody when it closes it, so every look at it asks first whether the
// descriptor still is this socket.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_NET_CONNECTION_H_
#define QUANTD_SERVER_NET_CONNECTION_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "server/gate/steady_time.h"

namespace quantd {

class Connection {
 public:
  // Of a descriptor that is open; does not own it.
  static std::shared_ptr<Connection> Of(int fd);
  // Of calls whose connection cannot be told, such as those over a unix
  // socket: one for all of them, with nothing to measure or to close.
  Connection() = default;

  // As gRPC names the peer of a call, without percent signs:
  // "ipv4:127.0.0.1:4711".
  const std::string& name() const { return name_; }
  // The name without the port.
  const std::string& host() const { return host_; }

  // Whether its bytes and calls can be told from those of others.
  bool countable() const { return tcp_; }
  bool Open() const;
  // Whether the peer has ended it, seen or not by gRPC.
  bool HasHungUp() const;
  // Nothing where the kernel does not count bytes.
  std::optional<uint64_t> Received() const;
  // Whether some of them still wait to be read: then it is not the peer that is
  // slow.
  bool HasUnread() const;
  struct Sending {
    uint64_t waiting = 0;  // bytes that the peer has not taken
    uint64_t taken = 0;    // bytes that it has
  };
  std::optional<Sending> Sent() const;
  // Ends the connection, as if the peer had hung up.
  void Shut() const;
  // Calls of every kind that are open on it.
  void CallBegins();
  void CallEnds();
  int calls() const { return calls_.load(std::memory_order_relaxed); }
  bool used() const { return used_; }             // it has had a call
  // Since when it has no call.
  absl::Time idle_since() const;

 private:
  Connection(int fd, std::string host, int port);
  // Does it while the descriptor is sure to be this socket; nothing if it is
  // not any more.
  void WithSocket(absl::FunctionRef<void(int fd)> deed) const;

  const int fd_ = -1;
  const ino_t inode_ = 0;
  const bool tcp_ = false;
  const std::string host_ = "unix";
  const std::string name_ = "unix:";
  std::atomic<int> calls_ = 0;
  std::atomic<bool> used_ = false;
  std::atomic<int64_t> idle_since_{absl::ToUnixNanos(SteadyNow())};
};

// The name of a peer as grpc::ServerContext::peer() gives it, "%5B" read as
// "[".
std::string PeerName(std::string_view peer);

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_CONNECTION_H_
