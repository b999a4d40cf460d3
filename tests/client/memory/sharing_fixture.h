// A server process that shares memory with a client of this process.
#ifndef QUANTD_TESTS_CLIENT_MEMORY_SHARING_FIXTURE_H_
#define QUANTD_TESTS_CLIENT_MEMORY_SHARING_FIXTURE_H_

#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "quantd/client.h"
#include "tests/bench/rpc_process.h"
#include "tests/client/temp_dir.h"
#include "tests/testing/matchers.h"

namespace quantd {

// Fills `bytes` with bf16 numbers from 0.5 to 1, which depend on the seed.
inline void Fill(absl::Span<std::byte> bytes, uint32_t seed) {
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    seed = seed * 1664525 + 1013904223;
    bytes[i] = static_cast<std::byte>(seed >> 24 & 0x7f);
    bytes[i + 1] = std::byte{0x3f};
  }
}

inline TensorDesc Rows(int64_t rows) { return {DType::kBF16, {rows, 1024}}; }

inline QuantizeOptions Nvfp4() {
  QuantizeOptions options;
  options.format = Format::kNvfp4;
  return options;
}

// An input, its codes and its scales, one after the other in one allocation.
struct Places {
  Places(const HostMemory& memory, int64_t rows)
      : tensor(Rows(rows)),
        input(memory.bytes().first(static_cast<size_t>(rows) * 2048)),
        codes(memory.bytes().subspan(input.size(), input.size() / 4)),
        scales(memory.bytes().subspan(input.size() / 4 * 5,
                                      (rows + 127) / 128 * 128 * 64)) {}
  absl::StatusOr<Result> Quantize(Client& client, CallOptions call = {},
                                  bool slowly = false) const {
    call.into = {{TensorKind::kRowwiseData, codes},
                 {TensorKind::kRowwiseScale, scales}};
    QuantizeOptions options = Nvfp4();
    options.statistics = options.rht.rowwise = slowly;
    return client.Quantize(tensor, input, options, call);
  }
  const TensorDesc tensor;
  const absl::Span<std::byte> input;
  const absl::Span<std::byte> codes;
  const absl::Span<std::byte> scales;
};

class Sharing : public testing::Test {
 protected:
  std::string Socket() const { return directory_ / "memory"; }
  std::string Calls() const { return "unix:" + (directory_ / "calls"); }
  void Start(bool with_door = true, const std::string& devices = "cpu:0") {
    std::vector<std::string> command = {
        bench::FindQuantd(), "--listen", Calls(),         "--device", devices,
        "--drain-delay-ms",  "0",        "--cpu-threads", "1"};
    if (with_door) {
      command.insert(command.end(), {"--memory-socket", Socket(),
                                     "--shared-memory-limit", "256MiB"});
    }
    process_ = std::make_unique<bench::ServerProcess>(command);
    ASSERT_TRUE(process_->running()) << process_->Log();
  }
  std::unique_ptr<Client> Open(
      std::chrono::milliseconds dead_peer = std::chrono::milliseconds(20'000)) {
    ClientOptions options;
    options.memory_socket = Socket();
    options.dead_peer_timeout = dead_peer;
    auto client = Client::Create(Calls(), options);
    EXPECT_THAT(client, IsOk());
    return client.ok() ? *std::move(client) : nullptr;
  }
  static HostMemory Allocate(Client& client, size_t bytes) {
    auto memory = client.AllocateHost(bytes);
    EXPECT_THAT(memory, IsOk());
    return memory.ok() ? *std::move(memory) : HostMemory();
  }
  // Number of regions that the server has mapped.
  size_t Mapped() const {
    const std::string maps =
        ReadFile("/proc/" + std::to_string(process_->pid()) + "/maps");
    size_t count = 0;
    for (size_t at = 0; (at = maps.find("/memfd:", at)) != std::string::npos;
         ++at) {
      ++count;
    }
    return count;
  }
  size_t Descriptors() const {
    const std::filesystem::directory_iterator open(
        "/proc/" + std::to_string(process_->pid()) + "/fd");
    return static_cast<size_t>(std::distance(begin(open), end(open)));
  }
  // Whether SIGSTOP has stopped the server.
  bool Stands() const {
    return ReadFile("/proc/" + std::to_string(process_->pid()) + "/stat")
               .find(") T ") != std::string::npos;
  }
  static bool Eventually(const std::function<bool()>& condition) {
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }

  const TempDir directory_;
  std::unique_ptr<bench::ServerProcess> process_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_MEMORY_SHARING_FIXTURE_H_
