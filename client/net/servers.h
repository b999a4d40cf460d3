// Finds the servers that a client may call, watches their health, and picks one
// for each call.
//
// Every server has connections of its own, and gRPC balances nothing. Its
// round_robin picks the next connection whatever its load, which is wrong for
// tensors of up to 512 MiB, and a failed call could not ask for a different
// server.
//
// If there are several servers, each is watched over a connection of its own,
// so that a call meets a dead or draining one only if that happens during the
// call. A single server is not watched, since there is no choice.
//
// Names are resolved with the first call, when the answer is half a minute old
// and, at most once a second, when a server was lost. A name that no longer
// resolves keeps its addresses.
#ifndef QUANTD_CLIENT_NET_SERVERS_H_
#define QUANTD_CLIENT_NET_SERVERS_H_

#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "client/net/address.h"
#include "client/net/channel.h"
#include "client/net/health_watch.h"
#include "client/net/transport.h"

namespace quantd::client {

// Thread-safe.
class Servers {
  struct Connection;
  struct Server;

 public:
  // `connections` is the number to each server, for calls.
  Servers(std::vector<Place> places, ChannelFactory channels, int connections,
          Resolver resolver = ResolveBySystem);
  // There must be no lease left. Does not wait for a name that is being
  // resolved.
  ~Servers();
  Servers(const Servers&) = delete;

  // One call's use of a connection. Its bytes count as in flight to the server
  // until it is destroyed, and on the connection until they are reported as
  // sent.
  class Lease {
   public:
    Lease(Lease&&) = default;
    ~Lease();
    grpc::GenericStub& stub() const;
    bool by_unix() const;
    std::shared_ptr<grpc::Channel> channel() const;
    void PayloadIsSent();

   private:
    friend class Servers;
    Lease() = default;
    struct Return;
    std::unique_ptr<Return> taken_;
  };

  // Servers that a call was sent to, which it avoids.
  using Tried = std::vector<std::shared_ptr<const Server>>;

  // Picks the server for a call of that size and adds it to `tried`. Waits
  // until some server is known to serve. nullopt if all servers were tried, the
  // deadline has passed, or the call was cancelled.
  std::optional<Lease> Pick(size_t bytes, Time deadline, CallControl& control,
                            Tried* tried);
  // Whether Pick would return a healthy server at once.
  bool HasAnother(const Tried& tried);

  // Reports how the call ended.
  void Report(const Lease& lease, const absl::Status& status);

  // The problem with each server or name, for people; a long list is cut.
  std::string Account() const;
  // The number of servers, including names that did not resolve.
  size_t size() const;

 private:
  struct Name;
  struct Link;
  std::vector<Candidate> Candidates(const Tried& tried) const;
  void LookUp(std::chrono::milliseconds max_age);
  void OnResolved(size_t name, absl::StatusOr<std::vector<Address>> found);
  void OnHealth(Server* server, Health health, const std::string& why);
  void Rebuild();
  void StartWatch(const std::shared_ptr<Server>& server);
  void WakeWaiters();

  const ChannelFactory channels_;
  const int connections_;
  const Resolver resolver_;

  mutable std::mutex mutex_;
  bool started_ = false;
  std::vector<Address> fixed_;
  std::vector<Name> names_;
  std::vector<std::shared_ptr<Server>> servers_;
  std::unordered_set<CallControl*> waiters_;
  uint64_t picks_ = 0;
  std::minstd_rand random_{std::random_device{}()};
  // Look-ups that outlive this object detect that through the link.
  const std::shared_ptr<Link> link_;
  // The last member: its thread uses all of the above.
  std::unique_ptr<HealthWatcher> watcher_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_SERVERS_H_
