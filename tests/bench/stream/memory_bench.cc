// Measures a server's memory under many large calls in chunks. It must not
// exceed the bound printed at the start by more than 5 %.
//
// All callers send the same memory and request NVFP4, and every reply is
// compared with the first one. The server's budget holds only a few
// calls, so most of them wait for memory all the time.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "proto/net/allocator.h"
#include "quantd/client.h"
#include "tests/bench/rpc_process.h"

namespace quantd::bench {
namespace {

constexpr int64_t kColumns = 1024;

uint64_t BoundOf(const std::string& log) {
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.value("event", "") == "serving") {
      return json.value("memory_bound_bytes", uint64_t{0});
    }
  }
  return 0;
}

struct Finding {
  int good = 0;
  int wrong = 0;
  absl::Status error;  // the first error
  uint64_t attempts = 0;
  double seconds = 0;
};

// Makes one call per caller, all at once.
Finding CallAll(const std::string& address, int streams,
                absl::Span<const std::byte> input) {
  const TensorDesc tensor = {
      DType::kBF16,
      {static_cast<int64_t>(input.size()) / (2 * kColumns), kColumns}};
  QuantizeOptions options;
  options.format = Format::kNvfp4;
  options.usage = Usage::kRowwise;
  options.rowwise_amax = {4.0f};
  ClientOptions how;
  how.channels = 1;
  how.stream_from = 0;
  how.deadline = std::chrono::minutes(20);
  Finding all;
  std::mutex mutex;
  std::vector<std::byte> expected;
  const auto call = [&] {
    const auto client = Client::Create(address, how);
    const auto result = client.ok()
                            ? (*client)->Quantize(tensor, input, options)
                            : absl::StatusOr<Result>(client.status());
    const std::lock_guard lock(mutex);
    all.error.Update(result.status());
    if (!result.ok()) return;
    all.attempts += static_cast<uint64_t>(result->attempts());
    const auto codes = result->bytes(TensorKind::kRowwiseData);
    if (expected.empty()) expected.assign(codes.begin(), codes.end());
    const bool same = result->streamed() && !expected.empty() &&
                      std::equal(codes.begin(), codes.end(), expected.begin(),
                                 expected.end());
    ++(same ? all.good : all.wrong);
  };
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> callers;
  for (int i = 0; i < streams; ++i) callers.emplace_back(call);
  for (std::thread& caller : callers) caller.join();
  all.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return all;
}

int Run(int argc, char** argv) {
  CLI::App app("Measures a server's memory under many calls in chunks.",
               "stream_memory_bench");
  int streams = 16;
  size_t mib = 32;
  std::string budget = "96MiB";
  std::string device = "cpu:0";
  std::string json_path;
  std::string commit;
  std::string date;
  app.add_option("--streams", streams, "Number of concurrent callers")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--mib", mib, "Input of each call")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--budget", budget, "The server's --memory-budget")
      ->capture_default_str();
  app.add_option("--device", device)->capture_default_str();
  app.add_option("--commit", commit, "Recorded in the file");
  app.add_option("--date", date, "Recorded in the file");
  app.add_option("--json", json_path, "File for the result");
  CLI11_PARSE(app, argc, argv);

  std::vector<std::byte> input(mib << 20);
  auto* const values = reinterpret_cast<uint16_t*>(input.data());
  for (size_t i = 0; i < input.size() / 2; ++i) {
    values[i] = static_cast<uint16_t>(0x3e00 + i * 2654435761u % 0x180);
  }
  const ServerProcess server({FindQuantd(), "--listen", "127.0.0.1:0",
                              "--device", device, "--memory-budget", budget,
                              "--log-format", "json"});
  const uint64_t bound = server.running() ? BoundOf(server.Log()) : 0;
  if (bound == 0) {
    std::fprintf(stderr, "the server did not start, or printed no bound\n%s\n",
                 server.Log().c_str());
    return 1;
  }
  const uint64_t before = server.Status("VmRSS");
  const Finding found = CallAll(server.address(), streams, input);
  const uint64_t peak = server.Status("VmHWM");
  const double part = static_cast<double>(peak) / static_cast<double>(bound);
  const bool holds = found.good == streams && peak > 0 && part <= 1.05;
  std::printf(
      "%d streams of %zu MiB in %.1f s: peak %.1f MiB, %.3f of the "
      "bound of %.1f MiB; %d good, %d wrong: %s\n",
      streams, mib, found.seconds, static_cast<double>(peak) / (1 << 20), part,
      static_cast<double>(bound) / (1 << 20), found.good, found.wrong,
      holds ? "holds" : "DOES NOT HOLD");
  if (!found.error.ok()) {
    std::fprintf(stderr, "%s\n", found.error.ToString().c_str());
  }
  if (!json_path.empty()) {
    std::ofstream file(json_path);
    file << nlohmann::json{{"benchmark", "memory of streams"},
                           {"commit", commit},
                           {"date", date},
                           {"device", device},
                           {"streams", streams},
                           {"mib", mib},
                           {"memory_budget", budget},
                           {"memory_bound_bytes", bound},
                           {"before_bytes", before},
                           {"peak_bytes", peak},
                           {"ratio_to_bound", part},
                           {"good", found.good},
                           {"wrong", found.wrong},
                           {"attempts", found.attempts},
                           {"seconds", found.seconds}}
                .dump(2)
         << '\n';
    if (!file.flush()) return 1;
  }
  return holds ? 0 : 1;
}

}  // namespace
}  // namespace quantd::bench

int main(int argc, char** argv) {
  quantd::TuneAllocator();
  return quantd::bench::Run(argc, argv);
}
