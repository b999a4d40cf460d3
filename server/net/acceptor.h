// Accepts connections and hands them to gRPC.
//
// gRPC's own listener stops for ever at the first failed accept
// (CVE-2023-4785), takes as many connections as come, and tells nobody about
// them. Here they are accepted up to a limit, at which one that does nothing
// makes room, and remembered, so that a call's connection can be measured and
// ended.
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
    // A peer that takes nothing of what it is owed for so long is hung up on.
    absl::Duration max_stuck = absl::Minutes(1);
    // A connection without a call for so long makes room for another. A shorter
    // time ends those whose first call is still on its way.
    absl::Duration idle = absl::Seconds(1);
  };

  // Listens, but accepts nothing yet.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(
      std::string_view address, const Limits& limits);
  ~Acceptor();

  // What a client dials.
  const std::string& address() const { return sockets_.address(); }

  using GrpcAcceptor = grpc::experimental::ExternalConnectionAcceptor;
  // Hands every connection to `to` from now on.
  void Start(std::unique_ptr<GrpcAcceptor> to);
  // Accepts no more. Must come before gRPC's server is shut down, which takes
  // no descriptor afterwards.
  void Stop();
  // Ends all connections. Returns how many those were.
  size_t EndAll();

  // The connection of a call, by grpc::ServerContext::peer(). Never null.
  std::shared_ptr<Connection> Find(std::string_view peer) const;
  size_t size() const;

 private:
  struct Entry {
    std::shared_ptr<Connection> connection;
    uint64_t taken = 0;  // when last looked at
    absl::Time moved;    // when that last changed, or nothing waited
  };

  Acceptor(ListenSockets sockets, const Limits& limits);
  void Run();
  void Accept(int listening);
  // Hangs up on stuck peers, and forgets the connections that are closed.
  void Sweep(absl::Time now);
  void ForgetClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: there is none, and none can be made.
  bool MakeRoom(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  ListenSockets sockets_;
  const std::shared_ptr<Connection> unknown_ = std::make_shared<Connection>();
  std::unique_ptr<GrpcAcceptor> to_;
  std::atomic<bool> stopping_ = false;
  mutable absl::Mutex mutex_;
  // By name. Over unix sockets all have the same; and the last one of a name
  // may have it of one that gRPC has closed meanwhile.
  std::multimap<std::string, Entry, std::less<>> entries_
      ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// Raises the soft limit of descriptors to the hard one, since what a shell or a
// service manager gives by default is fewer than the connections that a server
// can have. Returns what is allowed from now on; 0: not known.
uint64_t RaiseDescriptorLimit();

// The connections for which the process may have descriptors, beside its own.
size_t MostConnections();

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_ACCEPTOR_H_
