// The C++ client as one side of a comparison: quantizes on request and says how
// long it took. tests/bench/python/engines.py runs it beside the engines of the
// Python package, which answer the same lines.
//
//   sdk_bench TARGET
//
// A line of input, "BYTES THREADS CALLS", has that many threads make that many
// calls each, with bf16 tensors of that many bytes; the answer is a line of
// JSON. Ends with its input.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <latch>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "client/allocator.h"
#include "client/client.h"

namespace quantd::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kColumns = 1024;

// Values between 1 and 4 of either sign.
std::vector<uint16_t> MakeInput(size_t bytes, uint32_t seed) {
  std::vector<uint16_t> values(bytes / sizeof(uint16_t));
  for (uint16_t& value : values) {
    seed = seed * 1664525 + 1013904223;
    value =
        static_cast<uint16_t>(0x3f80 + (seed >> 8 & 0xff) + (seed >> 31 << 15));
  }
  return values;
}

class Worker {
 public:
  Worker(Client& client, size_t bytes, int calls, int number)
      : client_(client),
        calls_(calls),
        input_(MakeInput(bytes, static_cast<uint32_t>(number))) {}

  // Appends the microseconds of each call; false when one failed.
  bool Run() {
    const int64_t rows = static_cast<int64_t>(input_.size()) / kColumns;
    const TensorDesc tensor{DType::kBF16, {rows, kColumns}};
    QuantizeOptions options;
    options.format = Format::kNvfp4;
    const absl::Span<const std::byte> bytes(
        reinterpret_cast<const std::byte*>(input_.data()),
        input_.size() * sizeof(uint16_t));
    for (int i = 0; i < calls_; ++i) {
      const auto start = Clock::now();
      const auto result = client_.Quantize(tensor, bytes, options);
      if (!result.ok()) {
        std::cerr << result.status() << '\n';
        return false;
      }
      microseconds.push_back(
          std::chrono::duration<double, std::micro>(Clock::now() - start)
              .count());
    }
    return true;
  }

  std::vector<double> microseconds;

 private:
  Client& client_;
  const int calls_;
  const std::vector<uint16_t> input_;
};

// One line's work.
bool Answer(Client& client, size_t bytes, int threads, int calls) {
  std::vector<Worker> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back(client, bytes, calls, i);
  }
  std::vector<char> good(threads);
  std::latch begin(threads + 1);
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      begin.arrive_and_wait();
      good[i] = workers[i].Run();
    });
  }
  begin.arrive_and_wait();
  const auto start = Clock::now();
  for (std::thread& thread : running) thread.join();
  const double seconds =
      std::chrono::duration<double>(Clock::now() - start).count();
  std::vector<double> all;
  for (int i = 0; i < threads; ++i) {
    if (!good[i]) return false;
    all.insert(all.end(), workers[i].microseconds.begin(),
               workers[i].microseconds.end());
  }
  std::cout << nlohmann::json{{"seconds", seconds}, {"microseconds", all}}
            << std::endl;
  return true;
}

int Run(const std::string& target) {
  auto client = Client::Create(target);
  if (!client.ok()) {
    std::cerr << client.status() << '\n';
    return 1;
  }
  size_t bytes = 0;
  int threads = 0;
  int calls = 0;
  while (std::cin >> bytes >> threads >> calls) {
    if (!Answer(**client, bytes, threads, calls)) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace quantd::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "sdk_bench TARGET\n";
    return 2;
  }
  quantd::TuneAllocatorForBulkTransfers();
  return quantd::bench::Run(argv[1]);
}
