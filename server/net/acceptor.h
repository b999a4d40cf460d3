// Accepts connections and hands them to gRPC.
//
// gRPC's own listener stops for ever at the first failed accept
// (CVE-2023-4785), and does not limit or report connections. This one has a
// limit, at which it closes an idle connection to make room, and remembers
// connections, so that a call's connection can be measured and ended.
//
// Threads: Find and size may be called from any thread, the rest from one.
#ifndef QUANTD_SERVER_NET_ACCEPTOR_H_
#define QUANTD_SERVER_NET_ACCEPTOR_H_

#include <grpcpp/server_builder.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/net/connection.h"
#include "server/net/listen_socket.h"

namespace quantd {

class Acceptor {
 public:
  struct Limits {
    size_t connections = 1024;
    // Time after which a peer that takes nothing of what is sent to it is
    // disconnected.
    absl::Duration max_stuck = absl::Minutes(1);
    // Time without a call after which a connection may be closed to make room.
    // A shorter time would end connections whose first call is still on its
    // way.
    absl::Duration idle = absl::Seconds(1);
  };

  // Listens, but accepts no connection yet.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(
      std::string_view address, const Limits& limits);
  ~Acceptor() { Stop(); }

  // The address that clients dial.
  const std::string& address() const { return sockets_.address(); }

  using GrpcAcceptor = grpc::experimental::ExternalConnectionAcceptor;
  // Hands every connection to `to` from now on.
  void Start(std::unique_ptr<GrpcAcceptor> to);
  // Stops accepting. Must be called before gRPC's server is shut down, which
  // takes no descriptor afterwards.
  void Stop();
  // Ends all connections. Returns their number.
  size_t EndAll();

  // The connection of a call, by grpc::ServerContext::peer(). Never null.
  std::shared_ptr<Connection> Find(std::string_view peer) const;
  size_t size() const {
    absl::MutexLock lock(&mutex_);
    return entries_.size();
  }

 private:
  struct Entry {
    std::shared_ptr<Connection> connection;
    uint64_t taken = 0;  // state at the last look
    absl::Time moved;    // when it last changed or nothing waited
  };

  Acceptor(ListenSockets sockets, const Limits& limits);
  void Run();
  void Accept(int listening);
  // Disconnects stuck peers, and forgets connections that are closed.
  void Sweep(absl::Time now);
  void ForgetClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes room for one more connection. Returns false if none may be closed.
  bool MakeRoom(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  ListenSockets sockets_;
  const std::shared_ptr<Connection> unknown_ = std::make_shared<Connection>();
  std::unique_ptr<GrpcAcceptor> to_;
  std::atomic<bool> stopping_ = false;
  mutable absl::Mutex mutex_;
  // By peer name. All unix sockets share one name, and a name may be reused
  // after gRPC has closed its connection: the last entry is the current one.
  std::multimap<std::string, Entry, std::less<>> entries_
      ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// Raises the soft limit of descriptors to the hard one: shells and service
// managers set it lower than the connections that a server can have. Returns
// the new limit; 0 if unknown.
uint64_t RaiseDescriptorLimit();

// Number of connections for which the process may have descriptors, besides its
// other ones.
size_t MostConnections();

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_ACCEPTOR_H_
