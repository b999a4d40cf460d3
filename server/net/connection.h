// An accepted connection, observed through its socket. gRPC owns the descriptor
// and does not report when it closes it, so every look first checks that the
// descriptor is still this socket.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_NET_CONNECTION_H_
#define QUANTD_SERVER_NET_CONNECTION_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/gate/steady_time.h"

namespace quantd {

class Connection {
 public:
  // Observes an open descriptor, without owning it.
  static std::shared_ptr<Connection> Of(int fd);
  // Stands for the unknown connection of a call, such as one over a unix
  // socket. Nothing can be measured or closed.
  Connection() = default;

  // The peer without its port, "ipv4:127.0.0.1", and with it,
  // "ipv4:127.0.0.1:4711": gRPC's name of a call's peer, without
  // percent-encoding.
  const std::string& host() const { return host_; }
  const std::string& name() const { return name_; }

  // Whether its bytes and calls can be counted on their own.
  bool countable() const { return tcp_; }
  bool Open() const;
  // Bytes read from it; nullopt if the kernel does not count them.
  std::optional<uint64_t> Received() const;
  // Whether received bytes wait to be read.
  bool HasUnread() const;
  struct Sending {
    uint64_t waiting = 0;  // bytes that the peer has not taken
    uint64_t taken = 0;    // bytes that the peer has taken
  };
  std::optional<Sending> Sent() const;
  // Ends the connection, as if the peer had hung up.
  void Shut() const;

  // Count the open calls of every kind.
  void CallBegins() {
    begun_.fetch_add(1);
    calls_.fetch_add(1, std::memory_order_relaxed);
  }
  void CallEnds();
  int calls() const { return calls_.load(std::memory_order_relaxed); }
  uint64_t begun() const { return begun_; }  // number of calls so far
  // Since when it has had no call.
  absl::Time idle_since() const { return absl::FromUnixNanos(idle_since_); }

 private:
  Connection(int fd, std::string host, int port);

  const int fd_ = -1;
  const ino_t inode_ = 0;
  const bool tcp_ = false;
  const std::string host_ = "unix";
  const std::string name_ = "unix:";
  std::atomic<int> calls_ = 0;
  std::atomic<uint64_t> begun_{0};
  std::atomic<int64_t> idle_since_{absl::ToUnixNanos(SteadyNow())};
};

// Converts a peer's name from grpc::ServerContext::peer(): "%5B" becomes "[".
std::string PeerName(std::string_view peer);

// Counts the bytes that a connection brings for one call. Bytes of several
// calls cannot be told apart, so it counts only while the call is alone on its
// connection.
class AloneCount {
 public:
  void Begin(const Connection& connection) {
    absl::MutexLock lock(&mutex_);
    before_.reset();
    Count(connection);
  }
  // Bytes since Begin, or since the last look that found signs of other calls.
  // Without Begin, since the first look.
  uint64_t Look(const Connection& connection) {
    absl::MutexLock lock(&mutex_);
    return Count(connection);
  }

 private:
  uint64_t Count(const Connection& connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto received = connection.Received();
    const uint64_t begun = std::exchange(begun_, connection.begun());
    if (!received || connection.calls() > 1) {
      before_.reset();
    } else if (!before_ || begun != begun_) {
      before_ = received;
    } else {
      // Bytes that came between its two counts make Received() seem to fall.
      return *received < *before_ ? 0 : *received - *before_;
    }
    return 0;
  }

  absl::Mutex mutex_;
  std::optional<uint64_t> before_ ABSL_GUARDED_BY(mutex_);
  uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_CONNECTION_H_
