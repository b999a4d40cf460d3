// Offers five times the calls that a device can serve, each with a deadline.
// The gate must admit nearly as many as can end in time. The test simulates
// everything but the gate and sets its clock, so that changes of its rules can
// be evaluated without a server.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>

#include "tests/server/gate/gate_fixture.h"

namespace quantd {
namespace {

struct Load {
  size_t bytes;
  // Milliseconds of a job on the single slot of the single device, of sending a
  // message, of sending a reply, and until the deadline.
  double job, message, reply, deadline;
};

class OverloadTest : public GateTest, public testing::WithParamInterface<Load> {
 protected:
  struct Call {
    absl::Time deadline;
    TestWaiter waiter;
    Lease lease;
  };

  void At(double in_ms, std::function<void()> what) {
    events_.emplace(now_ + in_ms * absl::Milliseconds(1), std::move(what));
  }
  void Run() {
    while (!events_.empty()) {
      auto next = events_.extract(events_.begin());
      now_ = next.key();
      next.mapped()();
    }
  }

  void Arrive(double deadline_ms) {
    const auto call = std::make_shared<Call>();
    call->deadline = now_ + deadline_ms * absl::Milliseconds(1);
    if (Message(load_.bytes, "", &call->waiter, &call->lease, Priority::kNormal,
                call->deadline)
            .outcome != Outcome::kGranted) {
      gate_->Forget(&call->waiter);
      return;
    }
    At(load_.message, [this, call] {
      call->lease.Arrived(load_.bytes, load_.bytes, now_);
      queued_.push_back(call);
      BeginJob();
    });
  }
  void BeginJob() {
    if (busy_ || queued_.empty()) return;
    const auto call = queued_.front();
    queued_.pop_front();
    if (call->lease.JobEndsTooLate(call->deadline, now_)) return BeginJob();
    busy_ = true;
    At(load_.job * std::clamp(1 + 0.2 * varies_(random_), 0.3, 2.0),
       [this, call] {
         call->lease.Served(now_);
         call->lease.Reset();
         gate_->Decide(now_);
         At(load_.reply,
            [this, call] { in_time_ += now_ <= call->deadline ? 1 : 0; });
         busy_ = false;
         BeginJob();
       });
  }

  const Load load_ = GetParam();
  std::multimap<absl::Time, std::function<void()>> events_;
  std::deque<std::shared_ptr<Call>> queued_;
  bool busy_ = false;
  int in_time_ = 0;
  std::minstd_rand random_{1};
  std::normal_distribution<double> varies_;
};

TEST_P(OverloadTest, ServesNineTenthsOfTheCapacityInTime) {
  constexpr int kJobs = 1000;
  // A single caller runs first, so that the gate learns the rate.
  for (int i = 0; i < 200; ++i) {
    Arrive(1e6);
    Run();
  }
  in_time_ = 0;
  std::exponential_distribution<double> pause(5 / load_.job);
  for (double ms = 0; ms < kJobs * load_.job; ms += pause(random_)) {
    At(ms, [this] { Arrive(load_.deadline); });
  }
  Run();
  EXPECT_GE(in_time_, 0.9 * kJobs);
}

// Small calls spend most of a short deadline on the network.
INSTANTIATE_TEST_SUITE_P(Sizes, OverloadTest,
                         testing::Values(Load{kMiB, 1.2, 0.5, 0.5, 5},
                                         Load{kMiB, 1.2, 1.2, 0.8, 5},
                                         Load{kMiB, 1.2, 0.5, 0.5, 10},
                                         Load{16 * kMiB, 16, 4, 3, 64}));

}  // namespace
}  // namespace quantd
