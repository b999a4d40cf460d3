// Runs the C++ client in comparisons: quantizes on request and prints the
// times. tests/bench/python/engines.py runs it and the engines of the Python
// package, which reply to the same lines.
//
//   sdk_bench TARGET [--memory-socket PATH] [--in-place] [--gpu-memory]
//             [--given-amax] [--rht] [--band-bytes N] [--channels N]
//             [--busy-poll-us N]
//
// With --memory-socket, which implies --in-place, tensors and results are in
// memory shared with the server. With --in-place alone, for a target like
// "local", results are written to the caller's memory. With --gpu-memory both
// are in the memory of GPU 0.
//
// For each line of input, "BYTES THREADS CALLS", THREADS threads make CALLS
// calls each with bf16 tensors of BYTES bytes, and the program prints a line of
// JSON. It exits at the end of its input.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <latch>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "quantd/allocator.h"
#include "quantd/local.h"
#include "tests/bench/quantile.h"

namespace quantd::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kColumns = 1024;

struct Flags {
  std::string target;
  std::string memory_socket;
  bool in_place = false;
  bool gpu_memory = false;
  bool given_amax = false;
  bool rotated = false;
  size_t band_bytes = 0;
  int channels = 2;
  int busy_poll_us = 0;
};

// Fills `values` with bf16 numbers of both signs between 1 and 4.
void MakeInput(absl::Span<uint16_t> values, uint32_t seed) {
  for (uint16_t& value : values) {
    seed = seed * 1664525 + 1013904223;
    value =
        static_cast<uint16_t>(0x3f80 + (seed >> 8 & 0xff) + (seed >> 31 << 15));
  }
}

class Worker {
 public:
  Worker(Client& client, const Flags& flags, size_t bytes, int calls,
         int number)
      : client_(client), calls_(calls) {
    options_.format = Format::kNvfp4;
    if (flags.given_amax) options_.rowwise_amax = {16.0f};
    options_.rht.rowwise = flags.rotated;
    tensor_ = {DType::kBF16,
               {static_cast<int64_t>(bytes) / (2 * kColumns), kColumns}};
    Allocate(bytes, &memory_);
    MakeInput(
        absl::MakeSpan(reinterpret_cast<uint16_t*>(memory_.bytes().data()),
                       bytes / sizeof(uint16_t)),
        static_cast<uint32_t>(number));
    input_ = memory_.bytes();
    if (flags.gpu_memory) MoveInput();
    if (!flags.in_place) return;
    const auto plan = MakeQuantizePlan(tensor_, options_);
    if (!plan.ok()) return;
    absl::Span<std::byte> output;
    if (flags.gpu_memory) {
      output = AllocateOnGpu(plan->output_bytes());
    } else {
      Allocate(plan->output_bytes(), &output_);
      output = output_.bytes();
    }
    for (const TensorSpec& part : plan->outputs()) {
      call_.into.push_back({part.kind, output.subspan(part.offset, part.size)});
    }
  }

  // Appends the microseconds of each call. Returns false if one failed.
  bool Run() {
    for (int i = 0; i < calls_; ++i) {
      const auto start = Clock::now();
      const auto result = client_.Quantize(tensor_, input_, options_, call_);
      if (!result.ok()) {
        std::cerr << result.status() << '\n';
        return false;
      }
      microseconds.push_back(
          std::chrono::duration<double, std::micro>(Clock::now() - start)
              .count());
      transport = Name(result->transport());
    }
    return true;
  }

  std::vector<double> microseconds;
  std::string_view transport;

 private:
  absl::Span<std::byte> AllocateOnGpu(size_t bytes) {
    auto made = client_.AllocateDevice(0, bytes);
    if (!made.ok()) {
      std::cerr << made.status() << '\n';
      std::exit(1);
    }
    return on_gpu_.emplace_back(*std::move(made)).bytes();
  }
  // Fills GPU memory with rotated input by an ApplyRht call, because the SDK
  // has no plain copy.
  void MoveInput() {
    const auto there = AllocateOnGpu(input_.size());
    CallOptions into;
    into.into = {{TensorKind::kRotated, there}};
    const auto moved = client_.ApplyRht(tensor_, input_, {}, into);
    if (!moved.ok()) {
      std::cerr << moved.status() << '\n';
      std::exit(1);
    }
    input_ = there;
  }
  void Allocate(size_t bytes, HostMemory* memory) {
    auto made = client_.AllocateHost(bytes);
    if (made.ok()) {
      *memory = *std::move(made);
    } else {
      std::cerr << made.status() << '\n';
      std::exit(1);
    }
  }

  Client& client_;
  const int calls_;
  TensorDesc tensor_;
  QuantizeOptions options_;
  CallOptions call_;
  HostMemory memory_;
  HostMemory output_;
  std::vector<DeviceMemory> on_gpu_;
  absl::Span<const std::byte> input_;
};

// Performs one line of input.
bool Answer(Client& client, const Flags& flags, size_t bytes, int threads,
            int calls) {
  std::vector<Worker> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back(client, flags, bytes, calls, i);
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
  std::cout << nlohmann::json{{"seconds", seconds},
                              {"median_us", Median(all)},
                              {"microseconds", all},
                              {"transport", workers[0].transport}}
            << std::endl;
  return true;
}

int Run(const Flags& flags) {
  ClientOptions options;
  options.memory_socket = flags.memory_socket;
  options.band_bytes = flags.band_bytes;
  options.channels = flags.channels;
  options.busy_poll = std::chrono::microseconds(flags.busy_poll_us);
  auto client = CreateClient(flags.target, options);
  if (!client.ok()) {
    std::cerr << client.status() << '\n';
    return 1;
  }
  size_t bytes = 0;
  int threads = 0;
  int calls = 0;
  while (std::cin >> bytes >> threads >> calls) {
    if (!Answer(**client, flags, bytes, threads, calls)) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace quantd::bench

int main(int argc, char** argv) {
  quantd::bench::Flags flags;
  CLI::App app("Makes calls with the C++ client as its input says");
  app.add_option("target", flags.target, "Target as in Client::Create")
      ->required();
  app.add_option("--memory-socket", flags.memory_socket,
                 "Memory socket of the server");
  app.add_flag("--in-place", flags.in_place,
               "Write results to the caller's memory");
  app.add_flag("--gpu-memory", flags.gpu_memory,
               "Keep tensors and results in the memory of GPU 0");
  app.add_flag("--given-amax", flags.given_amax,
               "Give the amax in the request");
  app.add_option("--busy-poll-us", flags.busy_poll_us,
                 "ClientOptions::busy_poll");
  app.add_flag("--rht", flags.rotated, "Rotate rows");
  app.add_option("--band-bytes", flags.band_bytes,
                 "Cut calls into bands of this size");
  app.add_option("--channels", flags.channels, "Connections");
  CLI11_PARSE(app, argc, argv);
  flags.in_place |= !flags.memory_socket.empty() || flags.gpu_memory;
  quantd::TuneAllocatorForBulkTransfers();
  return quantd::bench::Run(flags);
}
