// What one call holds of the ledger's accounts (server/gate/ledger.h).
#ifndef QUANTD_SERVER_GATE_MEMORY_CHARGE_H_
#define QUANTD_SERVER_GATE_MEMORY_CHARGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "server/gate/caller.h"
#include "server/gate/sender.h"

namespace quantd {

class MemoryLedger;

// Gives back what it holds on destruction. Move-only, not thread-safe. Safe to
// destroy in a gRPC callback: a short lock, no wait.
class MemoryCharge {
 public:
  MemoryCharge();
  MemoryCharge(MemoryCharge&& other) noexcept;
  MemoryCharge& operator=(MemoryCharge&& other) noexcept;
  ~MemoryCharge();

  int device() const { return device_; }
  size_t receive() const { return receive_; }
  size_t head() const { return head_; }
  size_t payload() const { return payload_; }

  // The message is here, `bytes` of it; it needs `receive` from now on.
  void Arrived(size_t bytes, size_t receive) noexcept;
  // A reply needs more than its request did. Never waits: for what is small.
  void GrowReceive(size_t receive) noexcept;
  // Gives back what is held above.
  void ShrinkReceive(size_t receive) noexcept;
  void ShrinkHead(size_t head) noexcept;
  void ShrinkPayload(size_t payload) noexcept;
  // All of the call is here, so many bytes, and is work from now on, until its
  // job is over and its reply may go.
  void Begins(size_t bytes) noexcept;
  // Whether the job, if it began now, would end too late: of a call that was
  // let in with little time to spare. The forecast learns of it.
  bool IsTooLate() noexcept;
  void Served() noexcept;
  void Reset() noexcept;

 private:
  friend class MemoryLedger;
  void EndWork(bool served) noexcept;

  std::shared_ptr<MemoryLedger> ledger_;
  std::shared_ptr<Sender> sender_;
  std::shared_ptr<const Caller> caller_;
  Priority priority_ = Priority::kNormal;
  // The message on its way; null once it is here.
  std::unique_ptr<Sender::Arrival> arrival_;
  size_t receive_ = 0;
  size_t head_ = 0;
  size_t payload_ = 0;
  uint64_t unread_ = 0;  // bytes that may come before they are asked for
  double work_ = 0;      // that it has begun, see Forecast
  absl::Time due_ = absl::InfiniteFuture();  // as was foreseen
  bool was_slow_ = false;                    // to come
  int device_ = 0;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_MEMORY_CHARGE_H_
