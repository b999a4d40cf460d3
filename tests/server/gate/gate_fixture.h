// A gate with a clock that the test sets, and waiters.
#ifndef QUANTD_TESTS_SERVER_GATE_GATE_FIXTURE_H_
#define QUANTD_TESTS_SERVER_GATE_GATE_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/gate/gate.h"

namespace quantd {

inline constexpr size_t kMiB = 1 << 20;
inline const absl::Time kOpened = absl::UnixEpoch();

struct TestWaiter : Gate::Waiter {
  void OnAdmitted(Outcome o, Lease l) override {
    outcome = o;
    lease = std::move(l);
    ++told;
  }
  std::optional<Outcome> outcome;
  int told = 0;
  Lease lease;
};

// A gate with 64 MiB for messages, 1 MiB for heads, and a clock that the test
// sets.
class GateTest : public testing::Test {
 protected:
  void Make(std::vector<size_t> devices = {64 * kMiB},
            std::vector<size_t> streams = {2}, size_t max_waiting = 128) {
    Gate::Limits limits;
    limits.receiving = 64 * kMiB;
    limits.heads = kMiB;
    limits.devices = std::move(devices);
    limits.streams = std::move(streams);
    limits.max_waiting = max_waiting;
    gate_ = Gate::Create(std::move(limits));
  }
  void SetUp() override { Make(); }
  void TearDown() override { EXPECT_EQ(gate_->used(), 0u); }

  Gate::Answer Message(size_t bytes, std::string identity, Gate::Waiter* waiter,
                       Lease* lease, Priority priority = Priority::kNormal,
                       absl::Time deadline = absl::InfiniteFuture()) {
    return gate_->AdmitMessage({bytes, std::move(identity), priority, deadline},
                               now_, waiter, lease);
  }
  Outcome Payload(size_t bytes, Gate::Waiter* waiter, Lease* lease,
                  int device = -1, bool is_stream = false,
                  absl::Time deadline = absl::InfiniteFuture()) {
    return gate_
        ->AdmitJob(bytes, device, is_stream, deadline, now_, waiter, lease)
        .outcome;
  }
  Lease Admitted(size_t bytes, std::string identity = "a") {
    Lease lease;
    EXPECT_EQ(Message(bytes, std::move(identity), &unused_, &lease).outcome,
              Outcome::kGranted);
    return lease;
  }
  // Simulates a second of work at `rate` bytes per second, so that the gate
  // measures this rate.
  void Measure(size_t rate) {
    Lease lease = gate_->Track(1, "");
    lease.Arrived(1, rate, now_);
    now_ += absl::Seconds(1);
    lease.Served(now_);
  }

  absl::Time now_ = kOpened;
  std::shared_ptr<Gate> gate_;
  TestWaiter unused_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_SERVER_GATE_GATE_FIXTURE_H_
