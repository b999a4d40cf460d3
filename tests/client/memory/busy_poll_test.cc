// Tests of threads that poll before they sleep: replies are unchanged, and idle
// threads do sleep.
#include <signal.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/memory/sharing_fixture.h"

namespace quantd {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class BusyPoll : public Sharing {
 protected:
  void StartBusy() {
    process_ = std::make_unique<bench::ServerProcess>(std::vector<std::string>{
        bench::FindQuantd(), "--listen", Calls(), "--device", "cpu:0",
        "--drain-delay-ms", "0", "--memory-socket", Socket(),
        "--shared-memory-limit", "128MiB", "--busy-poll-us", "300"});
    ASSERT_TRUE(process_->running()) << process_->Log();
    ClientOptions options;
    options.memory_socket = Socket();
    options.busy_poll = microseconds(300);
    auto client = Client::Create(Calls(), options);
    ASSERT_THAT(client, IsOk());
    client_ = *std::move(client);
  }
  // Returns the server's processor time in clock ticks of 10 ms.
  long ProcessorTime() const {
    std::ifstream file("/proc/" + std::to_string(process_->pid()) + "/stat");
    std::string word;
    for (int i = 0; i < 13; ++i) file >> word;
    long user = 0;
    long system = 0;
    file >> user >> system;
    return user + system;
  }

  std::unique_ptr<Client> client_;
};

TEST_F(BusyPoll, RepliesAreUnchanged) {
  StartBusy();
  std::vector<std::thread> callers;
  for (uint32_t c = 0; c < 3; ++c) {
    callers.emplace_back([&, c] {
      // The smaller job runs on the network thread, the larger one on a worker.
      for (const int64_t rows : {16, 512}) {
        const HostMemory memory =
            Allocate(*client_, static_cast<size_t>(rows + 128) * (2048 + 640));
        const Places places(memory, rows);
        Fill(places.input, c);
        ASSERT_THAT(places.Quantize(*client_), IsOk());
        const std::vector<std::byte> codes(places.codes.begin(),
                                           places.codes.end());
        for (int i = 0; i < 100; ++i) {
          std::fill(places.codes.begin(), places.codes.end(), std::byte{0});
          ASSERT_THAT(places.Quantize(*client_), IsOk());
          ASSERT_TRUE(BytesEq("codes", codes, places.codes));
          // Calls arrive while the threads poll, as they fall asleep, and while
          // they sleep.
          std::this_thread::sleep_for(microseconds(i % 3 * 250));
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST_F(BusyPoll, IdleThreadsSleep) {
  StartBusy();
  const HostMemory memory = Allocate(*client_, 1 << 20);
  const Places places(memory, 128);
  ASSERT_THAT(places.Quantize(*client_), IsOk());
  std::this_thread::sleep_for(milliseconds(100));
  const long before = ProcessorTime();
  std::this_thread::sleep_for(milliseconds(1000));
  EXPECT_LE(ProcessorTime() - before, 20);
}

TEST_F(BusyPoll, DeadlineEndsAPollingCall) {
  StartBusy();
  const HostMemory memory = Allocate(*client_, 1 << 20);
  const Places places(memory, 128);
  ASSERT_THAT(places.Quantize(*client_), IsOk());
  ClientOptions options;
  options.busy_poll = milliseconds(100);
  const auto client = Client::Create(Calls(), options);
  ASSERT_THAT(client, IsOk());
  ASSERT_THAT(places.Quantize(**client), IsOk());
  process_->Signal(SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return Stands(); }));
  for (const int deadline : {20, 200}) {
    CallOptions call;
    call.deadline = milliseconds(deadline);
    EXPECT_THAT(places.Quantize(**client, call),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
  }
  process_->Signal(SIGCONT);
}

}  // namespace
}  // namespace quantd
