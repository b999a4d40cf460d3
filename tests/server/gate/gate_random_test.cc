#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/gate/steady_time.h"
#include "tests/server/gate/gate_fixture.h"

namespace quantd {
namespace {

// Makes random requests for memory. The sums stay within the limits, each
// waiter is told once, and everything is released.
TEST_F(GateTest, RandomRequestsStayWithinTheLimits) {
  Make({8 * kMiB, 4 * kMiB}, {3, 0});
  struct Call : Gate::Waiter {
    void OnAdmitted(Outcome o, Lease l) override {
      EXPECT_TRUE(waits);
      waits = false;
      lost = o != Outcome::kGranted;
      lease = std::move(l);
    }
    Lease lease;
    bool waits = false;
    bool lost = false;
    int stage = 0;
  };
  std::minstd_rand random(1);
  const auto below = [&](size_t n) { return random() % n; };
  std::vector<std::unique_ptr<Call>> calls;
  std::map<Outcome, int> seen;
  for (int i = 0; i < 20'000; ++i) {
    now_ += absl::Milliseconds(below(20));
    if (calls.size() < 40) calls.push_back(std::make_unique<Call>());
    const auto at = calls.begin() + below(calls.size());
    Call& call = **at;
    const absl::Time deadline = below(2) == 0
                                    ? absl::InfiniteFuture()
                                    : now_ + absl::Milliseconds(below(2000));
    bool over = call.lost;
    if (call.waits) {
      over = below(8) == 0 && gate_->Forget(&call);
    } else if (!over) {
      Gate::Answer answer = {Outcome::kGranted};
      switch (call.stage++) {
        case 0:
          answer = Message(1 + below(below(4) == 0 ? 60 * kMiB : 2 * kMiB),
                           std::string(1, 'a' + below(4)), &call, &call.lease,
                           static_cast<Priority>(below(3)), deadline);
          break;
        case 1:
          if (!call.lease.GrowReceiving(below(30 * kMiB))) over = true;
          call.lease.Arrived(below(call.lease.receiving() + 1), kMiB, now_);
          break;
        case 2:
          answer = gate_->AdmitHead(below(kMiB / 2), deadline, now_, &call,
                                    &call.lease);
          break;
        case 3:
          answer.outcome =
              Payload(1 + below(4 * kMiB), &call, &call.lease,
                      below(3) == 0 ? 1 : -1, below(4) == 0, deadline);
          break;
        case 4:
          if (below(2) == 0) call.lease.Served(now_);
          call.lease.ShrinkPayload(below(kMiB));
          call.lease.ShrinkHead(below(1000));
          break;
        default:
          over = true;
      }
      ++seen[answer.outcome];
      call.waits = answer.outcome == Outcome::kWaiting;
      over = over || (!call.waits && answer.outcome != Outcome::kGranted);
    }
    if (over) calls.erase(at);
    if (below(100) == 0) {
      gate_->SetAvailable({Gate::Availability::kTakesWork,
                           static_cast<Gate::Availability>(below(3))});
    }
    gate_->Decide(now_);
    ASSERT_LE(gate_->receiving_used(), 64 * kMiB);
    ASSERT_LE(gate_->head_used(), kMiB);
    ASSERT_LE(gate_->payload_used(0), 8 * kMiB);
    ASSERT_LE(gate_->payload_used(1), 4 * kMiB);
    ASSERT_LE(gate_->streams_used(0), 3u);
    ASSERT_EQ(gate_->streams_used(1), 0u);
  }
  for (const auto& call : calls) {
    if (call->waits) {
      EXPECT_TRUE(gate_->Forget(call.get()));
    }
  }
  calls.clear();
  EXPECT_EQ(gate_->used(), 0u);
  EXPECT_EQ(gate_->streams_used(0), 0u);
  EXPECT_EQ(gate_->waiting(), 0u);
  for (const Outcome outcome :
       {Outcome::kGranted, Outcome::kWaiting, Outcome::kBusy, Outcome::kTooLate,
        Outcome::kNoDevice}) {
    EXPECT_GT(seen[outcome], 20) << static_cast<int>(outcome);
  }
}

// Threads request, withdraw and release memory concurrently. Each waiter is
// told exactly once, or is withdrawn and never told.
TEST_F(GateTest, ConcurrentRequestsAndWithdrawals) {
  struct Asker : Gate::Waiter {
    void OnAdmitted(Outcome, Lease l) override {
      Lease(std::move(l)).Reset();
      ++told;
    }
    std::atomic<int> told = 0;
  };
  constexpr int kThreads = 4, kAsks = 5000;
  std::vector<std::unique_ptr<Asker>> askers(kThreads * kAsks);
  std::vector<int> expected(askers.size(), 0);
  GateThread decides(gate_);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::minstd_rand random(t + 1);
      Lease held;
      for (int i = t * kAsks; i < (t + 1) * kAsks; ++i) {
        askers[i] = std::make_unique<Asker>();
        Lease lease;
        const Outcome outcome =
            gate_
                ->AdmitMessage({(1 + random() % 40) * kMiB, "a"}, SteadyNow(),
                               askers[i].get(), &lease)
                .outcome;
        if (outcome == Outcome::kGranted) held = std::move(lease);
        if (outcome == Outcome::kBusy) {
          held.Reset();
          std::this_thread::yield();
        }
        if (outcome != Outcome::kWaiting) continue;
        const bool forgotten =
            random() % 2 == 0 && gate_->Forget(askers[i].get());
        expected[i] = forgotten ? 0 : 1;
        if (random() % 2 == 0) held.Reset();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  decides.Stop();
  int told = 0;
  for (size_t i = 0; i < askers.size(); ++i) {
    EXPECT_EQ(askers[i]->told, expected[i]) << i;
    told += expected[i];
  }
  EXPECT_GT(told, 20);
}

}  // namespace
}  // namespace quantd
