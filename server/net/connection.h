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
#include "server/gate/sender.h"
#include "server/gate/steady_time.h"

namespace quantd {

class Connection : public Sender {
 public:
  // Of a descriptor that is open; does not own it.
  static std::shared_ptr<Connection> Of(int fd);
  // Of calls whose connection cannot be told, such as those over a unix
  // socket: one for all of them, with nothing to measure or to close.
  Connection() : Sender("unix") {}

  // As gRPC names the peer of a call, without percent signs:
  // "ipv4:127.0.0.1:4711". Its host() is the name without the port.
  const std::string& name() const { return name_; }

  // Whether its bytes and calls can be told from those of others.
  bool countable() const { return tcp_; }
  bool Open() const;
  // Whether the peer has ended it, seen or not by gRPC.
  bool HasHungUp() const;
  // Nothing where the kernel does not count bytes.
  std::optional<uint64_t> Received() const override;
  bool HasUnread() const override;
  void AllowBacklog(Backlog backlog) override;
  // Whether it has proven itself to the ledger.
  bool known() const { return backlog_ == Backlog::kAny; }
  // While it is paused the kernel drops what the peer writes, which it sends
  // again a little later. What it acknowledges, and that it has hung up, still
  // comes: a reset is sent but once. To be called, like what follows, by one
  // thread.
  void Pause(bool paused);
  // InfiniteFuture: it is not paused.
  absl::Time paused_since() const { return paused_since_; }
  // How much has come since anything was last sent to it, as far as looks tell.
  // No message brings more than the windows that were granted to it, and each
  // grant is sent. To be called every so often.
  uint64_t ReceivedUnanswered();
  struct Sending {
    uint64_t waiting = 0;  // bytes that the peer has not taken
    uint64_t taken = 0;    // bytes that it has
  };
  std::optional<Sending> Sent() const;
  // Ends the connection, as if the peer had hung up.
  void Shut() const;
  // True for the first caller alone: it is about to be expelled.
  bool BeginExpulsion() { return !expelled_.exchange(true); }
  // Nothing that still comes of it is worth any work.
  bool expelled() const { return expelled_; }

  // Calls of every kind that are open on it.
  void CallBegins();
  void CallEnds();
  // One of them was cancelled as soon as it came. True: that happens at a rate
  // that no honest client has.
  bool CallReset();
  int calls() const { return calls_.load(std::memory_order_relaxed); }
  int most_calls() const { return most_calls_; }  // at once, so far
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
  const std::string name_ = "unix:";
  std::atomic<int> calls_ = 0;
  std::atomic<int> most_calls_ = 0;
  std::atomic<bool> used_ = false;
  std::atomic<bool> expelled_ = false;
  std::atomic<int64_t> resets_paid_until_ = 0;  // steady time in ns
  std::atomic<int64_t> idle_since_{absl::ToUnixNanos(SteadyNow())};
  std::atomic<Backlog> backlog_{Backlog::kAny};  // as the kernel has it
  absl::Time paused_since_ = absl::InfiniteFuture();
  // As the last look found them.
  uint64_t answered_ = 0;          // bytes sent
  uint64_t received_by_then_ = 0;  // when that last changed
};

// The name of a peer as grpc::ServerContext::peer() gives it, "%5B" read as
// "[".
std::string PeerName(std::string_view peer);

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_CONNECTION_H_
