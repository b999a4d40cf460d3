// Sends a bounded load to a server, and checks a hash of every reply:
//
//   quantd_load SERVER SECONDS CALLS
//
// Ends after SECONDS or CALLS, whichever comes first, or on SIGTERM, and prints
// one line of counts. The exit code is 0 only if calls were made and every
// reply was right.
#include <signal.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstring>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "quantd/client.h"

namespace {

constexpr int kThreads = 4;
constexpr int64_t kRows = 200;
constexpr int64_t kColumns = 320;
// Hash of the input's NVFP4 with both usages and columnwise RHT. The bytes are
// a promise, so it never changes.
constexpr uint64_t kReply = 0xdaf5df0a9cad1aec;

volatile sig_atomic_t stopped = 0;

struct Counts {
  std::atomic<int64_t> started{0};
  std::atomic<int64_t> right{0};
  std::atomic<int64_t> wrong{0};
  std::atomic<int64_t> failed{0};
  std::mutex mutex;
  std::string first_error;
  std::chrono::nanoseconds slowest{0};
};

// Bf16 numbers of both signs between 1 and 4.
std::vector<uint16_t> MakeInput() {
  std::vector<uint16_t> values(kRows * kColumns);
  uint32_t seed = 1;
  for (uint16_t& value : values) {
    seed = seed * 1664525 + 1013904223;
    value =
        static_cast<uint16_t>(0x3f80 + (seed >> 8 & 0xff) + (seed >> 31 << 15));
  }
  return values;
}

int64_t Number(const char* text) {
  int64_t value = -1;
  std::from_chars(text, text + std::strlen(text), value);
  return value;
}

// FNV-1a of all parts.
uint64_t Hash(const quantd::Result& result) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const quantd::TensorSpec& part : result.parts()) {
    for (const std::byte byte : result.bytes(part.kind)) {
      hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
    }
  }
  return hash;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: quantd_load SERVER SECONDS CALLS\n";
    return 2;
  }
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(Number(argv[2]));
  const int64_t calls = Number(argv[3]);
  const std::vector<uint16_t> input = MakeInput();
  const quantd::TensorDesc tensor = {quantd::DType::kBF16, {kRows, kColumns}};
  quantd::QuantizeOptions options;
  options.format = quantd::Format::kNvfp4;
  options.usage = quantd::Usage::kBoth;
  options.rht.columnwise = true;
  auto client = quantd::Client::Create(argv[1]);
  if (!client.ok()) {
    std::cerr << "quantd_load: " << client.status().message() << "\n";
    return 2;
  }
  signal(SIGTERM, [](int) { stopped = 1; });

  Counts counts;
  const auto work = [&] {
    while (!stopped && std::chrono::steady_clock::now() < end &&
           counts.started++ < calls) {
      const auto before = std::chrono::steady_clock::now();
      const auto result =
          (*client)->Quantize(tensor,
                              {reinterpret_cast<const std::byte*>(input.data()),
                               input.size() * sizeof(uint16_t)},
                              options);
      const auto took = std::chrono::steady_clock::now() - before;
      if (!result.ok()) {
        ++counts.failed;
      } else {
        ++(Hash(*result) == kReply ? counts.right : counts.wrong);
      }
      const std::lock_guard lock(counts.mutex);
      counts.slowest = std::max<std::chrono::nanoseconds>(counts.slowest, took);
      if (!result.ok() && counts.first_error.empty()) {
        counts.first_error = result.status().ToString();
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();

  std::cout << counts.right << " right, " << counts.wrong << " wrong, "
            << counts.failed << " failed, slowest "
            << counts.slowest / std::chrono::milliseconds(1) << " ms";
  if (!counts.first_error.empty()) std::cout << "; " << counts.first_error;
  std::cout << std::endl;
  return counts.right > 0 && counts.wrong == 0 && counts.failed == 0 ? 0 : 1;
}
