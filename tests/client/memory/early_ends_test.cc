// Tests of shared memory when the server, a call or a client ends early.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "tests/client/memory/sharing_fixture.h"
#include "tests/client/memory/victims.h"

namespace quantd {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

TEST_F(Sharing, SharesAgainAfterAServerRestart) {
  Start();
  auto client = Open();
  const HostMemory memory = Allocate(*client, 1 << 20);
  const Places places(memory, 128);
  Fill(places.input, 5);
  ASSERT_THAT(places.Quantize(*client), IsOk());
  const std::vector<std::byte> codes(places.codes.begin(), places.codes.end());
  for (const bool with_door : {true, false, true}) {
    process_->Signal(SIGKILL);
    process_->WaitForExit(10);
    Start(with_door);
    std::fill(places.codes.begin(), places.codes.end(), std::byte{0});
    // The client offers its memory again at most once a second.
    std::this_thread::sleep_for(milliseconds(1100));
    const auto result = places.Quantize(*client);
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->transport(),
              with_door ? Transport::kShared : Transport::kUnix);
    EXPECT_TRUE(BytesEq("codes", codes, places.codes));
  }
}

TEST_F(Sharing, CancelledCallWritesNothingAfterItReturns) {
  Start();
  auto client = Open();
  constexpr int64_t kRows = 16 << 10;  // 32 MiB
  const HostMemory memory = Allocate(*client, kRows * (2048 + 512 + 64));
  const Places places(memory, kRows);
  Fill(places.input, 6);
  // Warms up, since the first call is the slowest.
  ASSERT_THAT(places.Quantize(*client, {}, true), IsOk());
  const auto start = Clock::now();
  ASSERT_THAT(places.Quantize(*client, {}, true), IsOk());
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(
      Clock::now() - start);
  std::mt19937 random(7);
  int cancelled = 0;
  for (int i = 0; i < 30; ++i) {
    CallOptions call;
    call.cancel.emplace();
    std::thread canceller([&] {
      std::this_thread::sleep_for(whole * (random() % 100) / 100);
      call.cancel->Cancel();
    });
    const auto result = places.Quantize(*client, call, true);
    canceller.join();
    if (result.ok()) continue;
    ++cancelled;
    // Overwrites the bytes that the job would write last.
    const auto end = places.codes.last(4096);
    std::fill(end.begin(), end.end(), std::byte{0xee});
    std::this_thread::sleep_for(2 * whole);
    ASSERT_EQ(std::count(end.begin(), end.end(), std::byte{0xee}), 4096) << i;
  }
  EXPECT_GT(cancelled, 0);
  const auto result = places.Quantize(*client);
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(Eventually([&] {
    return places.Quantize(*client)->transport() == Transport::kShared;
  }));
}

TEST_F(Sharing, SilentMemorySocketDelaysACallOnlyToItsDeadline) {
  Start();
  auto client = Open();
  const HostMemory memory = Allocate(*client, 1 << 20);
  const Places places(memory, 128);
  ASSERT_THAT(places.Quantize(*client), IsOk());
  process_->Signal(SIGKILL);
  process_->WaitForExit(10);
  Start();
  process_->Signal(SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return Stands(); }));
  CallOptions call;
  call.deadline = milliseconds(500);
  // The first call finds that its memory is no longer shared, the second that
  // the memory socket does not answer.
  for (int i = 0; i < 2; ++i) {
    const auto start = Clock::now();
    EXPECT_THAT(places.Quantize(*client, call),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(15));
  }
  process_->Signal(SIGCONT);
}

TEST_F(Sharing, CallsToAStoppedServerEnd) {
  Start();
  auto client = Open(milliseconds(300));
  const HostMemory memory = Allocate(*client, 1 << 20);
  const Places places(memory, 128);
  Fill(places.input, 8);
  ASSERT_THAT(places.Quantize(*client), IsOk());
  process_->Signal(SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return Stands(); }));
  const auto start = Clock::now();
  CallOptions call;
  call.deadline = milliseconds(200);
  EXPECT_THAT(places.Quantize(*client, call),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(15));
  process_->Signal(SIGCONT);
  // The server may still write to the memory, so the client does not share it
  // again.
  std::this_thread::sleep_for(milliseconds(1100));
  const auto result = places.Quantize(*client);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->transport(), Transport::kUnix);
}

volatile sig_atomic_t told_to_end = 0;

// This is not a test: it is a process that makes calls until SIGKILL or SIGTERM
// ends it.
TEST_F(Sharing, DISABLED_Victim) {
  const char* const target = std::getenv("QUANTD_VICTIM_TARGET");
  const char* const socket = std::getenv("QUANTD_VICTIM_SOCKET");
  ASSERT_TRUE(target != nullptr && socket != nullptr);
  signal(SIGTERM, [](int) { told_to_end = 1; });
  auto client = Client::Create(target, {.memory_socket = socket});
  ASSERT_THAT(client, IsOk());
  const HostMemory memory = Allocate(**client, size_t{6} << 20);
  const Places places(memory, 2048);
  Fill(places.input, 9);
  ASSERT_EQ(places.Quantize(**client)->transport(), Transport::kShared);
  ASSERT_EQ(write(3, "!", 1), 1);
  while (told_to_end == 0 && places.Quantize(**client).ok()) {
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kKills = 20;  // a process takes long to start
#else
constexpr int kKills = 200;
#endif

TEST_F(Sharing, KilledClientsDoNotDelayOthers) {
  Start();
  auto client = Open();
  const HostMemory memory = Allocate(*client, 1 << 20);
  const Places places(memory, 256);
  Fill(places.input, 10);
  ASSERT_THAT(places.Quantize(*client), IsOk());
  const std::vector<std::byte> codes(places.codes.begin(), places.codes.end());
  ASSERT_TRUE(Eventually([&] { return Mapped() == 1; }));
  const size_t descriptors = Descriptors();

  // The list to which this process adds its latencies, in microseconds, while
  // the processes of Victims end.
  std::atomic<std::vector<double>*> times = nullptr;
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) {
      std::fill(places.codes.begin(), places.codes.end(), std::byte{0});
      const auto start = Clock::now();
      const auto result = places.Quantize(*client);
      const std::chrono::duration<double, std::micro> took =
          Clock::now() - start;
      EXPECT_THAT(result, IsOk());
      EXPECT_EQ(result->transport(), Transport::kShared);
      EXPECT_TRUE(BytesEq("codes", codes, places.codes));
      if (auto* const list = times.load()) list->push_back(took.count());
    }
  });
  Victims victims("Sharing.DISABLED_Victim", Calls(), Socket());
  std::vector<double> told;
  std::vector<double> killed;
  times = &told;
  victims.End(kKills / 3, SIGTERM);
  times = &killed;
  victims.End(kKills, SIGKILL);
  stop = true;
  other.join();
  const auto p99 = [](std::vector<double>& of) {
    std::sort(of.begin(), of.end());
    return of[of.size() * 99 / 100];
  };
  ASSERT_GT(told.size(), 10u);
  ASSERT_GT(killed.size(), 50u);
  const double before = p99(told);
  const double after = p99(killed);
  std::printf(
      "p99 of another client: %.0f us beside clients that leave, "
      "%.0f us beside clients that are killed\n",
      before, after);
  // A busy machine may pause all processes for some milliseconds.
  EXPECT_LE(after, 2 * before + 10'000);
  EXPECT_TRUE(Eventually([&] { return Mapped() == 1; })) << Mapped();
  EXPECT_TRUE(Eventually([&] { return Descriptors() <= descriptors; }))
      << descriptors << " and now " << Descriptors();
  // The server exits cleanly only if all memory was released.
  client.reset();
  process_->Signal(SIGTERM);
  EXPECT_EQ(process_->WaitForExit(30), 0) << process_->Log();
}

}  // namespace
}  // namespace quantd
