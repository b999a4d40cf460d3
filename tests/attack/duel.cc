#include "tests/attack/duel.h"

#include <algorithm>
#include <string>
#include <thread>

namespace quantd::attack {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Keepalive detects a lost peer after 60 s plus 20 s without a reply. HAProxy
// keeps some calls of a closed connection for its client timeout, EDGE_CLIENT.
constexpr milliseconds kPatience{85'000};

// Measures good clients beside well-behaved ones that send as many bytes on as
// many connections as the attacker did.
std::vector<Score> BesideHonestLoad(const Attack& attack,
                                    const Setting& setting, const Deeds& deeds,
                                    const DuelTimes& times,
                                    const std::vector<Callers>& callers) {
  AttackedServer server(setting, 0);
  if (!server.running()) return {};
  GoodClients good(server.address(), server.credentials(), callers,
                   times.deadline);
  good.Call(milliseconds(500));
  const double rate =
      static_cast<double>(deeds.sent_bytes) / std::max(deeds.seconds, 0.1);
  std::vector<std::string> arguments = {"honest",
                                        "--connections",
                                        std::to_string(attack.connections),
                                        "--call-bytes",
                                        std::to_string(attack.call_bytes),
                                        "--rate",
                                        std::to_string(std::max(rate, 1e4))};
  AttackerProcess attacker(server, setting, times.honest + 2 * times.deadline,
                           arguments);
  std::vector<Score> scores = good.Call(times.honest);
  attacker.Stop();
  server.Stop(kDrainSeconds + 10);
  return scores;
}

}  // namespace

std::vector<Callers> UsualCallers() {
  return {{.count = 1, .call_bytes = 4 << 10},
          {.count = 2, .call_bytes = 16 << 20}};
}

Outcome RunDuel(const Attack& attack, const Setting& setting,
                const DuelTimes& times, const std::vector<Callers>& callers) {
  Outcome outcome;
  AttackedServer server(setting, attack.descriptors);
  if (!server.running()) return outcome;
  outcome.bound = server.bound();
  {
    GoodClients good(server.address(), server.credentials(), callers,
                     times.deadline);
    outcome.before = good.Call(times.before);
    AttackerProcess attacker(server, setting, times.during + 2 * times.deadline,
                             {std::string(attack.name), "--largest-request",
                              std::to_string(server.LargestRequest())},
                             !attack.without_token);
    // Waits until the attacker has begun.
    std::this_thread::sleep_for(milliseconds(100));
    // Probes the server like an orchestrator's liveness probe.
    std::thread probe([&] {
      std::this_thread::sleep_for(times.during / 2);
      outcome.probe = server.Probe();
    });
    outcome.during = good.Call(times.during);
    probe.join();
    outcome.deeds = attacker.Stop();
  }
  outcome.crash = server.Crash();
  if (outcome.crash == 0) {
    GoodClients late(server.address(), server.credentials(),
                     {{.count = 1, .call_bytes = 4 << 10}}, times.deadline);
    outcome.accepts = late.Call(milliseconds(1)).front().failed == 0;
    outcome.settled = server.Settles(kPatience);
  }
  outcome.most_resident = server.MostResident();
  outcome.most_resident_of_edge = server.MostResidentOfEdge();
  if (outcome.crash == 0) {
    const auto start = Clock::now();
    outcome.exit_code = server.Stop(kDrainSeconds + 20);
    outcome.stop_seconds =
        std::chrono::duration<double>(Clock::now() - start).count();
  }
  if (times.honest.count() > 0) {
    outcome.honest =
        BesideHonestLoad(attack, setting, outcome.deeds, times, callers);
  }
  return outcome;
}

}  // namespace quantd::attack
