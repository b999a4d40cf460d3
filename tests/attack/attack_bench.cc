// What good clients notice of each attack: two that send 16 MiB at a time and
// one that sends 4 KiB, before the attack, during it and beside an honest load
// of as many bytes. The attacker has one core of the machine.
//
//   attack_bench [ATTACK...] [--seconds 5] [--budget 256MiB,0]
//     [--settings plain,elsewhere,secure,edge] [--honest] [--flags=--queues,4]
//     [--json FILE]
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
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

// By name: an attacker among the good clients, from an address of its own,
// without the token that TLS clients have, or from an address of its own with
// the edge before the server.
bool SettingNamed(const std::string& name, Setting* setting) {
  setting->edge = name == "edge";
  if (name == "elsewhere" || setting->edge) setting->source = "127.0.0.2";
  setting->secure = name == "secure";
  return name == "plain" || name == "elsewhere" || setting->secure ||
         setting->edge;
}

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
          {"memory_bound_bytes", outcome.bound},
          {"crash_signal", outcome.crash},
          {"ledger_empty", outcome.settled},
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
    add(!outcome.settled, "ledger not empty");
    add(!outcome.accepts, "accepts nobody");
    add(outcome.exit_code != 0, "exit " + std::to_string(outcome.exit_code));
    add(outcome.stop_seconds > kDrainSeconds, "slow stop");
  }
  for (const Score& score : outcome.during) {
    add(score.failed > 0, "failed calls");
  }
  for (size_t i = 0; i < outcome.honest.size(); ++i) {
    add(outcome.during[i].p99_ms > 2 * outcome.honest[i].p99_ms, "p99");
  }
  return words.empty() ? "ok" : words;
}

void PrintHead() {
  std::printf("%-20s %-9s %-7s %-6s %15s %7s %15s %21s %13s  %s\n", "attack",
              "setting", "budget", "call", "calls/s", "success", "p50 ms",
              "p99 ms (honest)", "RSS/bound MiB", "verdict");
}

void Print(const Attack& attack, const std::string& setting,
           const std::string& budget, const Outcome& outcome) {
  for (size_t i = 0; i < outcome.during.size(); ++i) {
    const Score& before = outcome.before[i];
    const Score& during = outcome.during[i];
    const double honest = outcome.honest.empty() ? 0 : outcome.honest[i].p99_ms;
    std::printf(
        "%-20s %-9s %-7s %-6s %6.1f > %6.1f %6.1f%% %6.1f > %6.1f "
        "%6.0f > %5.0f (%4.0f) %6.0f/%6.0f  %s\n",
        std::string(attack.name).c_str(), setting.c_str(), budget.c_str(),
        during.call_bytes >= kMiB ? "16MiB" : "4KiB", before.calls_per_second,
        during.calls_per_second, 100 * during.success(), before.p50_ms,
        during.p50_ms, before.p99_ms, during.p99_ms, honest,
        static_cast<double>(outcome.most_resident) / kMiB,
        static_cast<double>(outcome.bound) / kMiB,
        i == 0 ? Verdict(outcome).c_str() : during.error.substr(0, 60).c_str());
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Good clients beside attackers");
  std::vector<std::string> names;
  std::vector<std::string> settings = {"plain", "secure"};
  std::vector<std::string> budgets = {"256MiB", "0"};
  std::vector<std::string> flags;
  double seconds = 5;
  bool honest = false;
  std::string path;
  app.add_option("attacks", names, "names; none: all of them");
  app.add_option("--seconds", seconds, "of each measurement")
      ->capture_default_str();
  app.add_option("--settings", settings, "plain, elsewhere, secure, edge")
      ->delimiter(',');
  app.add_option("--budget", budgets, "memory budgets of servers; 0: theirs")
      ->delimiter(',');
  app.add_option("--flags", flags, "more flags of servers")->delimiter(',');
  app.add_flag("--honest", honest, "measures beside an honest load, too");
  app.add_option("--json", path, "writes everything there");
  CLI11_PARSE(app, argc, argv);
  for (const std::string& name : names) {
    if (FindAttack(name) != nullptr) continue;
    std::cerr << "attack_bench: no attack " << name << '\n';
    return 2;
  }

  if (std::ranges::count(settings, "edge") != 0 && !Edge::IsHere()) {
    std::cerr << "attack_bench: the edge needs haproxy\n";
    return 2;
  }

  DuelTimes times;
  times.before = times.during =
      std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  if (honest) times.honest = times.during;
  json rows = json::array();
  const auto save = [&] {
    if (path.empty()) return;
    const json all = {{"cores", std::thread::hardware_concurrency()},
                      {"seconds", seconds},
                      {"flags", flags},
                      {"rows", rows}};
    std::ofstream(path) << all.dump(1) << '\n';
  };
  PrintHead();
  for (const Attack& attack : Attacks()) {
    if (!names.empty() && std::ranges::count(names, attack.name) == 0) continue;
    for (const std::string& name : settings) {
      for (const std::string& budget : budgets) {
        Setting setting;
        if (!SettingNamed(name, &setting)) {
          std::cerr << "attack_bench: no setting " << name << '\n';
          return 2;
        }
        if (attack.needs_tokens && !setting.secure) continue;
        uint64_t bytes = 0;
        std::string text = budget;
        CLI::AsSizeValue(false)(text);
        bytes = std::stoull(text);
        setting.budget = bytes;
        setting.flags = flags;
        const Outcome outcome = RunDuel(attack, setting, times, UsualCallers());
        Print(attack, name, budget, outcome);
        json row = ToJson(outcome);
        row["attack"] = attack.name;
        row["what"] = attack.what;
        row["setting"] = name;
        row["budget_bytes"] = bytes;
        row["verdict"] = Verdict(outcome);
        rows.push_back(row);
        save();
      }
    }
  }
  return 0;
}
