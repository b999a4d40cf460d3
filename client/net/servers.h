// The servers that a client may call: finds them, hears how they are, and says
// which one gets a call.
//
// Every server has connections of its own here, and gRPC balances nothing. Its
// round_robin takes the next connection whatever lies on it, which for tensors
// of up to 512 MiB is the wrong one; and a call that failed cannot say that it
// wants any server but that one.
//
// Where there is more than one server, each is watched over a connection of
// its own, so that a call meets neither a dead nor a draining one unless they
// die while it is under way. A server alone is not watched: there is no choice
// to make.
//
// Names are looked up when the first call comes, when the answer is half a
// minute old and, at most once a second, when a server was lost. A name that
// resolves no more keeps the addresses that it had.
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
  // `connections`: to each server, for calls.
  Servers(std::vector<Place> places, ChannelFactory channels, int connections,
          Resolver resolver = ResolveBySystem);
  // No lease may be left. Does not wait for a name that is being looked up.
  ~Servers();
  Servers(const Servers&) = delete;

  // One call's place on a connection. Its bytes count as under way to the
  // server until it is destroyed, and on the connection until they are sent if
  // that is told.
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

  // The servers that a call was sent to, to be passed over.
  using Tried = std::vector<std::shared_ptr<const Server>>;

  // The server for a call of so many bytes, which is added to `tried`. Waits
  // until some server is known to serve. nullopt: no server is left to try, the
  // deadline has passed, or the call was cancelled.
  std::optional<Lease> Pick(size_t bytes, Time deadline, CallControl& control,
                            Tried* tried);
  // Whether Pick would at once give one with nothing against it.
  bool HasAnother(const Tried& tried);

  // How the call ended.
  void Report(const Lease& lease, const absl::Status& status);

  // What is wrong with each server or name, for people; of a long list the
  // beginning.
  std::string Account() const;
  // How many there are, names that did not resolve included.
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
  // Look-ups that outlive this object find it gone through here.
  const std::shared_ptr<Link> link_;
  // The last member: its thread uses all of the above.
  std::unique_ptr<HealthWatcher> watcher_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_SERVERS_H_
