// Measures a server's throughput with many well-behaved clients, which each
// make one call after another.
//
//   crowd_bench [--clients 1,2,4,8,20] [--call 16MiB] [--budget 256MiB]
//     [--attempts 1] [--seconds 10] [--json FILE]
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "tests/attack/attacked_server.h"
#include "tests/attack/good_clients.h"

int main(int argc, char** argv) {
  using namespace quantd::attack;  // NOLINT: this program uses only this
                                   // namespace
  CLI::App app("Measures many good clients");
  std::vector<int> crowds = {1, 2, 4, 8, 20};
  uint64_t call_bytes = 16 << 20;
  uint64_t budget = 256 << 20;
  int attempts = 1;
  double seconds = 10;
  std::string path;
  app.add_option("--clients", crowds,
                 "numbers of clients, one server for each number")
      ->delimiter(',');
  app.add_option("--call", call_bytes, "bytes of one call")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--budget", budget, "memory of the server; 0: its default")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--attempts", attempts, "attempts of each call")
      ->capture_default_str();
  app.add_option("--seconds", seconds, "length of each measurement")
      ->capture_default_str();
  app.add_option("--json", path, "file for the results as JSON");
  CLI11_PARSE(app, argc, argv);

  const std::chrono::milliseconds time(static_cast<int64_t>(seconds * 1000));
  nlohmann::json rows = nlohmann::json::array();
  for (const int clients : crowds) {
    AttackedServer server({.budget = budget, .way = Way::kPlain}, 0);
    if (!server.running()) {
      std::cerr << "crowd_bench: the server did not start\n";
      return 1;
    }
    GoodClients good(server.address(), server.credentials(),
                     {{.count = clients, .call_bytes = call_bytes}},
                     std::chrono::seconds(60), attempts);
    // A first round creates connections, threads and memory.
    good.Call(std::chrono::seconds(1));
    const Score score = good.Call(time).front();
    const double rate =
        score.calls_per_second * static_cast<double>(call_bytes) / (1 << 20);
    const int crash = server.Crash();
    std::printf(
        "%3d clients of %5.0f MiB: %6.1f calls/s, %7.1f MiB/s, %d served, %d "
        "failed, %d for the least served, p50 %.0f ms, p99 %.0f ms, RSS %.0f "
        "of %.0f MiB%s %s\n",
        clients, static_cast<double>(call_bytes) / (1 << 20),
        score.calls_per_second, rate, score.served, score.failed, score.fewest,
        score.p50_ms, score.p99_ms,
        static_cast<double>(server.MostResident()) / (1 << 20),
        static_cast<double>(server.bound()) / (1 << 20),
        crash == 0 ? "" : " CRASH", score.error.substr(0, 100).c_str());
    std::fflush(stdout);
    rows.push_back({{"clients", clients},
                    {"call_bytes", call_bytes},
                    {"budget_bytes", budget},
                    {"attempts", attempts},
                    {"served", score.served},
                    {"failed", score.failed},
                    {"fewest_served_to_one", score.fewest},
                    {"most_ms", score.most_ms},
                    {"error", score.error},
                    {"calls_per_second", score.calls_per_second},
                    {"mib_per_second", rate},
                    {"p50_ms", score.p50_ms},
                    {"p99_ms", score.p99_ms},
                    {"most_resident_bytes", server.MostResident()},
                    {"memory_bound_bytes", server.bound()},
                    {"crash_signal", crash}});
    if (crash == 0) server.Stop(kDrainSeconds + 20);
  }
  if (!path.empty()) {
    const nlohmann::json all = {{"cores", std::thread::hardware_concurrency()},
                                {"seconds", seconds},
                                {"rows", rows}};
    std::ofstream(path) << all.dump(1) << '\n';
  }
  return 0;
}
