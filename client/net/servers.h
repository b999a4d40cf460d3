// Finds the servers that a client may call, watches their health, and picks one
// for each call.
//
// Each server has its own connections; gRPC's load balancing is not used. Its
// round_robin policy ignores load, which is wrong for tensors of up to 512 MiB,
// and cannot send a failed call to a different server.
//
// If there are several servers, each is watched over a separate connection. A
// call then meets a dead or draining server only if it became so just now. A
// single server is not watched, because there is no choice.
//
// Names are resolved at the first call, at calls half a minute after the last
// time, and when a server is lost, then at most once a second. A name that no
// longer resolves keeps its addresses.
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

// The servers of one client. Thread-safe.
class Servers {
  struct Connection;
  struct Server;

 public:
  // Each server gets `connections` connections for calls.
  Servers(std::vector<Place> places, ChannelFactory channels, int connections,
          Resolver resolver = ResolveBySystem);
  // All leases must have ended. Does not wait for names that are being
  // resolved.
  ~Servers();
  Servers(const Servers&) = delete;

  // One call's use of a connection. The call's bytes count as in flight to the
  // server until the lease ends, and as in flight on the connection until
  // PayloadIsSent.
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

  // The servers that one call has been sent to. Its retries avoid them.
  using Tried = std::vector<std::shared_ptr<const Server>>;

  // Picks the server for a call of `bytes` bytes and adds it to `tried`. Waits
  // until at least one server is known to serve. Returns nullopt if all servers
  // were tried, the deadline has passed, or the call was cancelled.
  std::optional<Lease> Pick(size_t bytes, Time deadline, CallControl& control,
                            Tried* tried);
  // Whether Pick would return a healthy server at once.
  bool HasAnother(const Tried& tried);

  // Records how the call of `lease` ended.
  void Report(const Lease& lease, const absl::Status& status);

  // The last error of each server or name, for messages. A long list is cut.
  std::string Account() const;
  // The number of servers. A name that has not resolved counts as one.
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
  // Look-ups that outlive this object find a null owner in the link.
  const std::shared_ptr<Link> link_;
  // Last, because its thread uses the members above.
  std::unique_ptr<HealthWatcher> watcher_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_SERVERS_H_
