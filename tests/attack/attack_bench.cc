// Measures how each attack affects good clients: two with calls of 16 MiB and
// one with calls of 4 KiB. They run during the attack, and beside well-behaved
// clients that send as many bytes from the attacker's address. The attacker has
// one core of the machine.
//
//   attack_bench [ATTACK...] [--seconds 5] [--budget 256MiB]
//     [--ways edge,plain,mutual,stranger] [--json FILE]
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "tests/attack/attacks.h"
#include "tests/attack/duel.h"

namespace {

using namespace quantd::attack;  // NOLINT: this program is about nothing else
using nlohmann::json;

constexpr double kMiB = 1 << 20;

json ToJson(const std::vector<Score>& scores) {
  json kinds = json::array();
  for (const Score& score : scores) {
    json kind = {{"call_bytes", score.call_bytes},
                 {"served", score.served},
                 {"failed", score.failed},
                 {"calls_per_second", score.calls_per_second},
                 {"success", score.success()},
                 {"p50_ms", score.p50_ms},
                 {"p99_ms", score.p99_ms}};
    if (!score.error.empty()) kind["error"] = score.error;
    kinds.push_back(kind);
  }
  return kinds;
}

json ToJson(const Outcome& outcome) {
  return {{"before", ToJson(outcome.before)},
          {"during", ToJson(outcome.during)},
          {"honest", ToJson(outcome.honest)},
          {"attacker_bytes", outcome.deeds.sent_bytes},
          {"attacker_connections", outcome.deeds.connections},
          {"most_resident_bytes", outcome.most_resident},
          {"most_resident_bytes_of_edge", outcome.most_resident_of_edge},
          {"memory_bound_bytes", outcome.bound},
          {"crash_signal", outcome.crash},
          {"memory_came_back", outcome.settled},
          {"accepts_afterwards", outcome.accepts},
          {"probe_during", outcome.probe},
          {"exit_code", outcome.exit_code},
          {"stop_seconds", outcome.stop_seconds}};
}

std::string Verdict(const Outcome& outcome) {
  std::string words;
  const auto add = [&](bool bad, const std::string& word) {
    if (bad) words += (words.empty() ? "" : ", ") + word;
  };
  add(outcome.bound == 0, "did not start");
  add(outcome.crash != 0, "CRASH " + std::to_string(outcome.crash));
  add(static_cast<double>(outcome.most_resident) >
          1.05 * static_cast<double>(outcome.bound),
      "memory");
  if (outcome.crash == 0) {
    add(!outcome.probe, "probe");
    add(!outcome.settled, "memory is not released");
    add(!outcome.accepts, "accepts nobody");
    add(outcome.exit_code != 0, "exit " + std::to_string(outcome.exit_code));
    add(outcome.stop_seconds > kDrainSeconds, "slow stop");
  }
  for (size_t i = 0; i < outcome.during.size(); ++i) {
    add(outcome.during[i].failed > 0, "failed calls");
    add(i < outcome.honest.size() &&
            outcome.during[i].p99_ms > 2 * outcome.honest[i].p99_ms,
        "p99");
  }
  return words.empty() ? "ok" : words;
}

void Print(const Attack& attack, const std::string& way,
           const Outcome& outcome) {
  for (size_t i = 0; i < outcome.during.size(); ++i) {
    const Score& during = outcome.during[i];
    std::printf(
        "| %-20s | %-6s | %6s | %5.1f | %6.0f | %6.0f | %6.0f | %5.0f "
        "| %5.0f | %s |\n",
        std::string(attack.name).c_str(), way.c_str(),
        during.call_bytes >= kMiB ? "16 MiB" : "4 KiB", 100 * during.success(),
        during.p99_ms, i < outcome.honest.size() ? outcome.honest[i].p99_ms : 0,
        static_cast<double>(outcome.most_resident) / kMiB,
        static_cast<double>(outcome.most_resident_of_edge) / kMiB,
        static_cast<double>(outcome.bound) / kMiB,
        i == 0 ? Verdict(outcome).c_str() : during.error.substr(0, 60).c_str());
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, Way> kWays = {{"edge", Way::kEdge},
                                            {"plain", Way::kPlain},
                                            {"mutual", Way::kMutual},
                                            {"stranger", Way::kStranger}};
  CLI::App app("Measures good clients during attacks");
  std::vector<std::string> names;
  std::vector<std::string> ways = {"edge", "plain", "mutual", "stranger"};
  uint64_t budget = 256 << 20;
  double seconds = 5;
  std::string path;
  app.add_option("attacks", names, "names of attacks; all by default");
  app.add_option("--seconds", seconds, "length of each measurement")
      ->capture_default_str();
  app.add_option("--ways", ways,
                 "paths to the server: edge, plain, mutual, stranger")
      ->delimiter(',')
      ->check(CLI::IsMember(kWays));
  app.add_option("--budget", budget, "memory of the server; 0: its default")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--json", path, "file for the results as JSON");
  CLI11_PARSE(app, argc, argv);
  for (const std::string& name : names) {
    if (FindAttack(name) != nullptr) continue;
    std::cerr << "attack_bench: no attack " << name << '\n';
    return 2;
  }
  if (std::ranges::count(ways, "edge") != 0 && !Edge::IsHere()) {
    std::cerr << "attack_bench: the edge needs haproxy\n";
    return 2;
  }

  DuelTimes times;
  times.before = times.during = times.honest =
      std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  json rows = json::array();
  std::printf(
      "| attack | way | calls | good %% | p99 ms | p99 honest | RSS MiB "
      "| edge's | bound | verdict |\n"
      "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: "
      "| --- |\n");
  for (const Attack& attack : Attacks()) {
    if (!names.empty() && std::ranges::count(names, attack.name) == 0) continue;
    for (const std::string& name : ways) {
      const Way way = kWays.at(name);
      if ((way == Way::kPlain || way == Way::kMutual) && attack.by_strangers) {
        continue;
      }
      if (way == Way::kPlain && attack.without_token) continue;
      const Outcome outcome = RunDuel(attack, {.budget = budget, .way = way},
                                      times, UsualCallers());
      Print(attack, name, outcome);
      json row = ToJson(outcome);
      row["attack"] = attack.name;
      row["what"] = attack.what;
      row["way"] = name;
      row["budget_bytes"] = budget;
      row["verdict"] = Verdict(outcome);
      rows.push_back(row);
      if (path.empty()) continue;
      const json all = {{"cores", std::thread::hardware_concurrency()},
                        {"seconds", seconds},
                        {"rows", rows}};
      std::ofstream(path) << all.dump(1) << '\n';
    }
  }
  return 0;
}
