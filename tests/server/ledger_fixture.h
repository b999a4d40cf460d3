// A ledger of 64 MiB, and those who ask it.
#ifndef QUANTD_TESTS_SERVER_LEDGER_FIXTURE_H_
#define QUANTD_TESTS_SERVER_LEDGER_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/gate/ledger.h"

namespace quantd {

using Outcome = MemoryLedger::Outcome;
using Revocation = MemoryLedger::Revocation;

inline constexpr size_t kMiB = 1 << 20;

struct TestWaiter : MemoryLedger::Waiter {
  void OnMemory(Outcome o, MemoryCharge c) override {
    outcome = o;
    charge = std::move(c);
    told.Notify();
  }
  void Revoke(Revocation why) override {
    revoked = true;
    revocation = why;
  }
  bool Told() { return told.WaitForNotificationWithTimeout(absl::Minutes(1)); }
  absl::Notification told;
  Outcome outcome = Outcome::kStopped;
  std::atomic<bool> revoked = false;
  Revocation revocation = Revocation::kOthersWait;
  MemoryCharge charge;
};

class TestSender : public Sender {
 public:
  explicit TestSender(std::string host) : Sender(std::move(host)) {}
  std::optional<uint64_t> Received() const override { return received.load(); }
  bool HasUnread() const override { return unread; }
  void AllowBacklog(Backlog allowed) override { backlog = allowed; }
  std::atomic<uint64_t> received = 0;
  std::atomic<bool> unread = false;
  std::atomic<Backlog> backlog = Backlog::kSmall;  // as of a new connection
};

// 64 MiB to receive, 48 of them for messages on their way.
class LedgerTest : public testing::Test {
 protected:
  void Make(std::vector<size_t> payload, size_t max_waiting = 8,
            absl::Duration max_wait = absl::Minutes(2)) {
    MemoryLedger::Limits limits;
    limits.receive = 64 * kMiB;
    limits.arriving = 48 * kMiB;
    limits.payload = std::move(payload);
    limits.max_waiting = max_waiting;
    limits.max_wait = max_wait;
    limits.trusted = [](std::string_view host) { return host == "proxy"; };
    ledger_ = MemoryLedger::Create(std::move(limits));
  }
  void TearDown() override { ledger_->Stop(); }

  std::shared_ptr<TestSender> At(const std::string& host) {
    return std::make_shared<TestSender>(host);
  }
  Outcome Receive(const std::shared_ptr<Sender>& sender, size_t need,
                  MemoryCharge* charge, MemoryLedger::Waiter* waiter,
                  size_t most = 0) {
    return ledger_->AdmitReceive({sender, need, most, absl::InfiniteFuture()},
                                 waiter, charge);
  }
  // The charge of a small message that has arrived.
  MemoryCharge Arrived(const std::shared_ptr<Sender>& sender,
                       size_t bytes = 1) {
    MemoryCharge charge;
    EXPECT_EQ(Receive(sender, bytes, &charge, &unused_), Outcome::kGranted);
    charge.Arrived(bytes, bytes);
    return charge;
  }
  Outcome Pay(size_t need, MemoryCharge* charge, MemoryLedger::Waiter* waiter,
              absl::Time deadline = absl::InfiniteFuture()) {
    return ledger_->AdmitPayload(need, -1, deadline, waiter, charge);
  }
  // As if `after` had gone by.
  void SweepAfter(absl::Duration after) { ledger_->Sweep(absl::Now() + after); }

  std::shared_ptr<MemoryLedger> ledger_;
  TestWaiter unused_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_SERVER_LEDGER_FIXTURE_H_
