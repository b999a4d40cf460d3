// Who sends: a connection as the ledger sees it.
#ifndef QUANTD_SERVER_GATE_SENDER_H_
#define QUANTD_SERVER_GATE_SENDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace quantd {

class Sender {
 public:
  struct Arrival;  // a message on its way: server/gate/ledger.h

  // Senders of one host share its standing with the ledger.
  explicit Sender(std::string host) : host_(std::move(host)) {}
  virtual ~Sender() = default;
  Sender(const Sender&) = delete;

  const std::string& host() const { return host_; }
  // Bytes that have come in all, but for those that the kernel keeps; nothing
  // where that is not known.
  virtual std::optional<uint64_t> Received() const = 0;
  // Whether some of them still wait to be read: then it is not the sender who
  // is slow.
  virtual bool HasUnread() const = 0;

  // How much of what it sends the kernel may keep. gRPC reads all of that at
  // one go, whatever it is made of, and nobody else is served meanwhile.
  enum class Backlog {
    kLeast,   // a few KiB: of outlaws, and of one that heeds no limit
    kSmall,   // tens of KiB: of a stranger
    kWindow,  // hundreds: of one whose message was asked for
    kAny,     // what the kernel finds best for its speed and distance
  };
  virtual void AllowBacklog(Backlog backlog) { (void)backlog; }

 private:
  friend class MemoryLedger;
  friend class MemoryCharge;

  const std::string host_;
  // All guarded by the ledger's lock.
  std::vector<Arrival*> arrivals_;  // messages that are on their way
  size_t declared_ = 0;             // of them
  size_t counted_ = 0;              // what the ledger counts them as
  uint64_t unread_ = 0;             // windows of calls that are not read yet
  uint64_t received_ = 0;           // when last measured
  uint64_t explained_ = 0;  // bytes received that belong to ended messages
  uint64_t mark_ = 0;       // bytes received at `moved_`
  bool measured_ = false;   // whether its bytes can be counted at all
  // What may still be explained by guess, and since when that grows.
  uint64_t guesses_ = 0;
  absl::Time guessed_ = absl::InfinitePast();
  // Windows of calls that it left, which are yet to be guessed.
  uint64_t left_ = 0;
  // Until then what comes may belong to messages that were given up.
  absl::Time excused_until_ = absl::InfinitePast();
  // More has come since then than its calls may bring that were seen.
  absl::Time excess_since_ = absl::InfiniteFuture();
  absl::Time moved_;      // when they last came as fast as they should
  bool stalled_ = false;  // they have stopped coming
  absl::Time distrusted_until_ = absl::InfinitePast();
  // It declared what it did not send: until then nothing is foreseen of it.
  absl::Time unkept_until_ = absl::InfinitePast();
  bool proven_ = false;  // it has taken a whole reply
  size_t held_ = 0;      // memory of its calls, arrivals not counted
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_SENDER_H_
