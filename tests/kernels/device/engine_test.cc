#include "kernels/device/engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/kernels/device/fake_backend.h"

namespace quantd {
namespace {

struct TestWork : Engine::Work {
  void RunOn(Backend& backend, Engine::SlotLease) override {
    device = backend.info().name;
    started.Notify();
    release.WaitForNotification();
    // Notifies last, because the waiting thread may then destroy this object.
    auto* done_now = &done;
    done_now->Notify();
  }
  bool Started() {
    return started.WaitForNotificationWithTimeout(absl::Minutes(1));
  }
  std::string device;
  absl::Notification started;
  absl::Notification release;
  absl::Notification done;
};

class EngineTest : public testing::Test {
 protected:
  void Make(int devices, int slots, std::chrono::microseconds busy_poll = {}) {
    std::vector<std::unique_ptr<Backend>> backends;
    for (int i = 0; i < devices; ++i) {
      backends.push_back(std::make_unique<FakeBackend>(
          &control_, "fake:" + std::to_string(i), slots, 1 << 20));
    }
    engine_ = std::make_unique<Engine>(std::move(backends), busy_poll);
  }
  FakeControl control_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, RunsAsManyJobsAsSlotsOnTheRequestedDevice) {
  Make(2, 2);
  TestWork a, b, c, other;
  engine_->Submit(1, &a);
  engine_->Submit(1, &b);
  engine_->Submit(1, &c);
  engine_->Submit(0, &other);
  ASSERT_TRUE(a.Started());
  ASSERT_TRUE(b.Started());
  ASSERT_TRUE(other.Started());
  EXPECT_EQ(a.device, "fake:1");
  EXPECT_EQ(other.device, "fake:0");
  EXPECT_FALSE(
      c.started.WaitForNotificationWithTimeout(absl::Milliseconds(30)));
  a.release.Notify();
  ASSERT_TRUE(c.Started());
  for (TestWork* work : {&b, &c, &other}) work->release.Notify();
  for (TestWork* work : {&a, &b, &c, &other}) {
    work->done.WaitForNotification();
  }
  engine_.reset();
}

TEST_F(EngineTest, WorkersWaitForASlotThatTheCallerHolds) {
  Make(1, 1);
  auto slot = engine_->TrySlot(0);
  ASSERT_TRUE(slot);
  EXPECT_FALSE(engine_->TrySlot(0));
  TestWork work;
  work.release.Notify();
  engine_->Submit(0, &work);
  EXPECT_FALSE(
      work.started.WaitForNotificationWithTimeout(absl::Milliseconds(30)));
  slot.Reset();
  ASSERT_TRUE(work.Started());
  work.done.WaitForNotification();
  engine_.reset();
}

TEST_F(EngineTest, WithdrawnWorkIsNotRun) {
  Make(1, 1);
  TestWork running, queued;
  engine_->Submit(0, &running);
  ASSERT_TRUE(running.Started());
  engine_->Submit(0, &queued);
  EXPECT_FALSE(engine_->Withdraw(0, &running));
  EXPECT_TRUE(engine_->Withdraw(0, &queued));
  EXPECT_FALSE(engine_->Withdraw(0, &queued));
  running.release.Notify();
  running.done.WaitForNotification();
  engine_.reset();
  EXPECT_FALSE(queued.started.HasBeenNotified());
}

TEST_F(EngineTest, WorkLeavesALostDeviceUnlessItStays) {
  struct Leaving : TestWork {
    bool LeavesLostDevice() const override { return true; }
    void OnDeviceLost() override { left = true; }
    bool left = false;
  };
  Make(1, 1);
  TestWork running, staying;
  Leaving leaving, second;
  engine_->Submit(0, &running);
  ASSERT_TRUE(running.Started());
  engine_->Submit(0, &leaving);
  engine_->Submit(0, &staying);
  engine_->Submit(0, &second);
  engine_->Abandon(0);
  EXPECT_TRUE(leaving.left);
  EXPECT_TRUE(second.left);
  EXPECT_EQ(engine_->load(0).queued, 1u);
  staying.release.Notify();
  running.release.Notify();
  ASSERT_TRUE(staying.Started());
  staying.done.WaitForNotification();
  running.done.WaitForNotification();
  engine_.reset();
  EXPECT_FALSE(leaving.started.HasBeenNotified());
}

// Workers run work that is queued while they poll, fall asleep or sleep.
TEST_F(EngineTest, PollingWorkersMissNoWork) {
  constexpr std::chrono::microseconds kLook{200};
  for (const int slots : {1, 3}) {
    Make(1, slots, kLook);
    std::vector<std::thread> callers;
    for (int c = 0; c < 4; ++c) {
      callers.emplace_back([&] {
        for (int i = 0; i < 300; ++i) {
          TestWork work;
          work.release.Notify();
          engine_->Submit(0, &work);
          if (i % 7 == 0 && engine_->Withdraw(0, &work)) continue;
          ASSERT_TRUE(work.Started());
          work.done.WaitForNotification();
          std::this_thread::sleep_for(kLook / 2 * (i % 5));
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
    engine_.reset();
  }
}

}  // namespace
}  // namespace quantd
