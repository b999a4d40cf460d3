// Sends a bounded load to a server, and compares every reply byte for byte:
//
//   quantd_load SERVER SECONDS CALLS INPUT ROWS COLS EXPECTED
//
// INPUT has ROWS x COLS bf16 elements. EXPECTED has the outputs of NVFP4 with
// both usages and columnwise RHT. Ends after SECONDS or CALLS, whichever comes
// first, or on SIGTERM, and prints one line of counts. The exit code is 0 only
// if calls were made and every reply was right.
#include <signal.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "quantd/client.h"

namespace {

constexpr int kThreads = 4;

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

std::string ReadFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)),
                     std::istreambuf_iterator<char>());
}

int64_t Number(const char* text) {
  int64_t value = -1;
  std::from_chars(text, text + std::strlen(text), value);
  return value;
}

bool Same(const quantd::Result& result, const quantd::Plan& plan,
          const std::string& expected) {
  if (result.parts().size() != plan.outputs().size()) return false;
  for (const quantd::TensorSpec& part : plan.outputs()) {
    const auto bytes = result.bytes(part.kind);
    if (bytes.size() != part.size ||
        std::memcmp(bytes.data(), expected.data() + part.offset, part.size)) {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::cerr << "usage: quantd_load SERVER SECONDS CALLS INPUT ROWS COLS "
                 "EXPECTED\n";
    return 2;
  }
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(Number(argv[2]));
  const int64_t calls = Number(argv[3]);
  const std::string input = ReadFile(argv[4]);
  const std::string expected = ReadFile(argv[7]);
  const quantd::TensorDesc tensor = {quantd::DType::kBF16,
                                     {Number(argv[5]), Number(argv[6])}};
  quantd::QuantizeOptions options;
  options.format = quantd::Format::kNvfp4;
  options.usage = quantd::Usage::kBoth;
  options.rht.columnwise = true;
  const auto plan = quantd::MakeQuantizePlan(tensor, options);
  if (!plan.ok() || plan->input_bytes() != input.size() ||
      plan->output_bytes() != expected.size()) {
    std::cerr << "quantd_load: the sizes of the files do not match the shape\n";
    return 2;
  }
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
      const auto result = (*client)->Quantize(
          tensor,
          {reinterpret_cast<const std::byte*>(input.data()), input.size()},
          options);
      const auto took = std::chrono::steady_clock::now() - before;
      if (!result.ok()) {
        ++counts.failed;
      } else {
        ++(Same(*result, *plan, expected) ? counts.right : counts.wrong);
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
