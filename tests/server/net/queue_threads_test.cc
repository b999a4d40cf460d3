#include "server/net/queue_threads.h"

#include <grpcpp/alarm.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "server/net/call_queue.h"

namespace quantd {
namespace {

constexpr std::chrono::system_clock::time_point kAtOnce;

// A completion queue without events, of a server that does not listen.
class QueueThreadsTest : public testing::Test {
 protected:
  QueueThreadsTest() : threads_(&lone_, 0, std::chrono::microseconds(0)) {
    grpc::ServerBuilder builder;
    builder.RegisterAsyncGenericService(&service_);
    listening_ = builder.AddCompletionQueue();
    queue_ = builder.AddCompletionQueue(false);
    server_ = builder.BuildAndStart();
  }
  ~QueueThreadsTest() override {
    server_->Shutdown(kAtOnce);
    queue_->Shutdown();
    listening_->Shutdown();
    threads_.Join();
    void* tag = nullptr;
    bool ok = false;
    while (listening_->Next(&tag, &ok)) {
    }
  }

  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> listening_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  LoneCaller lone_;
  QueueUsers users_;
  QueueThreads threads_;
};

TEST_F(QueueThreadsTest, PollsAQueueWhileItHasUsers) {
  threads_.Add(queue_.get(), &users_);
  absl::Notification delivered;
  CompletionTag tag{[&](bool) { delivered.Notify(); }};
  grpc::Alarm alarm(queue_.get(), kAtOnce, &tag);
  EXPECT_FALSE(
      delivered.WaitForNotificationWithTimeout(absl::Milliseconds(50)));
  users_.Enter();
  EXPECT_TRUE(delivered.WaitForNotificationWithTimeout(absl::Seconds(20)));
  users_.Leave();
  EXPECT_FALSE(users_.any());
}

TEST_F(QueueThreadsTest, PollsAQueueAgainForLaterUsers) {
  threads_.Add(queue_.get(), &users_);
  for (int i = 0; i < 50; ++i) {
    users_.Enter();
    absl::Notification delivered;
    CompletionTag tag{[&](bool) { delivered.Notify(); }};
    grpc::Alarm alarm(queue_.get(), kAtOnce, &tag);
    ASSERT_TRUE(delivered.WaitForNotificationWithTimeout(absl::Seconds(20)));
    users_.Leave();
  }
}

// If the queue were not shut down, the destructor of the fixture would wait for
// its thread for ever.
TEST_F(QueueThreadsTest, ShutsDownAQueueWithoutUsers) {
  threads_.Add(queue_.get(), &users_);
}

TEST(ReadersTest, FollowTheLoadOfTheThreads) {
  EXPECT_EQ(Readers(0, 2, 1, 0.8), 0) << "one thread is enough";
  EXPECT_EQ(Readers(0, 2, 1, 0.95), 1);
  EXPECT_EQ(Readers(1, 2, 2, 0.95), 1) << "one of two is busy";
  EXPECT_EQ(Readers(1, 2, 2, 1.9), 2);
  EXPECT_EQ(Readers(2, 2, 3, 3), 2) << "all threads read already";
  EXPECT_EQ(Readers(2, 2, 3, 1), 2)
      << "a released thread would be needed again at once";
  EXPECT_EQ(Readers(2, 2, 3, 0.5), 1);
  EXPECT_EQ(Readers(1, 2, 2, 0), 0);
  EXPECT_EQ(Readers(0, 2, 1, 0), 0);
}

}  // namespace
}  // namespace quantd
