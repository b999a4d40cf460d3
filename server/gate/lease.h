// What one call holds of the gate's accounts.
#ifndef QUANTD_SERVER_GATE_LEASE_H_
#define QUANTD_SERVER_GATE_LEASE_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "server/gate/accounts.h"
#include "server/gate/caller.h"
#include "server/gate/workload.h"

namespace quantd {

// Gives all back when destroyed. Move-only, not thread-safe. May be destroyed
// in a gRPC callback: a short lock, no wait.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept { *this = std::move(other); }
  Lease& operator=(Lease&& other) noexcept;
  ~Lease() { Reset(); }

  // The device of its payload.
  int device() const { return device_; }
  size_t receiving() const { return receiving_; }
  size_t head() const { return head_; }
  size_t payload() const { return payload_; }

  // Holds `bytes` in all for a message that is longer than was counted on and
  // still comes. False: the account has no room, and the lease stays as it is.
  bool GrowReceiving(size_t bytes);
  // The message is here and needs `bytes` from now on; it is work of `work`
  // bytes until Served or Reset.
  void Arrived(size_t bytes, size_t work, absl::Time now);
  // Holds `bytes`, more or fewer than before. Never waits nor refuses: for
  // replies, and for what is small.
  void HoldReceiving(size_t bytes);
  // Give back what is held above; never grow.
  void ShrinkHead(size_t bytes);
  // 0 gives a stream's place back, too.
  void ShrinkPayload(size_t bytes);
  // Whether its job, begun now, would end after the deadline, by the measured
  // rate. Never of the only work there is: a rate that was low once would
  // refuse everything.
  bool IsTooLate(absl::Time deadline, absl::Time now) const;
  // Its job is over. The rate is measured from these.
  void Served(absl::Time now);
  void Reset();

 private:
  friend class Gate;
  void LeavePlace() ABSL_EXCLUSIVE_LOCKS_REQUIRED(accounts_->mutex);

  std::shared_ptr<Accounts> accounts_;
  std::string identity_;
  Priority priority_ = Priority::kNormal;
  int device_ = 0;
  size_t receiving_ = 0;
  size_t head_ = 0;
  size_t payload_ = 0;
  bool has_place_ = false;  // a stream's
  // The message on its way; nothing once it is here.
  std::optional<Workload::Coming::iterator> coming_;
  std::optional<size_t> work_;  // since its message is here
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_LEASE_H_
