// Runs every attack briefly beside good clients. Good clients must not fail,
// and no process may crash. Memory must stay within the bound that the server
// printed, and must be released. SIGTERM must end the server. Clients without
// credentials attack through the edge proxy. Clients on loopback and
// authenticated clients attack the server directly.
//
//   attack_test [--seconds=N] [--honest]
//
//   --seconds=N   the minimum duration of each attack
//   --honest      larger calls, whose p99 latency must be at most twice that
//                 beside honest clients that send as many bytes as the attack;
//                 --gtest_output=json:FILE writes what was measured
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/attack/attacks.h"
#include "tests/attack/duel.h"

namespace quantd::attack {

// Prints a test's parameter.
void PrintTo(const Attack& attack, std::ostream* to) { *to << attack.what; }

namespace {

using std::chrono::milliseconds;

// Sanitizers use additional memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMeasuresMemory = false;
#else
constexpr bool kMeasuresMemory = true;
#endif

constexpr size_t kMiB = 1 << 20;
constexpr size_t kBudget = 256 * kMiB;
// The memory limit in the edge's unit and container.
constexpr size_t kEdgeMemory = 512 * kMiB;
// A stop may take the drain timeout and a little more.
constexpr double kLongestStop = kDrainSeconds + 5;

// This is far above a call's time on a busy machine, and far below its time if
// an attacker holds the memory or slot that it needs.
constexpr double kLongestCallMs = 5000;

milliseconds least_time{0};
bool beside_honest = false;

void Record(const std::string& name, const std::vector<Score>& scores) {
  for (const Score& score : scores) {
    const std::string key = name + "_" + std::to_string(score.call_bytes);
    const auto record = [&](const char* what, double value) {
      testing::Test::RecordProperty(key + what, std::to_string(value));
    };
    record("_served", score.served);
    record("_failed", score.failed);
    record("_p50_ms", score.p50_ms);
    record("_p99_ms", score.p99_ms);
  }
}

// Without the edge, a server under attack may tell good clients that it is
// busy. No other error is allowed.
void ExpectUnharmed(const Outcome& outcome, Way way, bool probe = true) {
  ASSERT_NE(outcome.bound, 0u) << "the server did not start";
  ASSERT_EQ(outcome.crash, 0) << "the server died";
  for (const Score& score : outcome.during) {
    EXPECT_GT(score.served, 0) << score.call_bytes;
    if (way == Way::kEdge || score.error.find("busy") == std::string::npos) {
      EXPECT_EQ(score.failed, 0) << score.call_bytes << ": " << score.error;
    }
    EXPECT_LE(score.p99_ms, kLongestCallMs) << score.call_bytes;
  }
  for (size_t i = 0; i < outcome.honest.size(); ++i) {
    EXPECT_LE(outcome.during[i].p99_ms, 2 * outcome.honest[i].p99_ms)
        << outcome.honest[i].call_bytes;
  }
  Record("during", outcome.during);
  Record("honest", outcome.honest);
  testing::Test::RecordProperty("most_resident_bytes",
                                std::to_string(outcome.most_resident));
  testing::Test::RecordProperty("most_resident_bytes_of_edge",
                                std::to_string(outcome.most_resident_of_edge));
  if (probe) {
    EXPECT_TRUE(outcome.probe) << "the probe failed during the attack";
  }
  if (kMeasuresMemory) {
    EXPECT_LE(static_cast<double>(outcome.most_resident),
              1.05 * static_cast<double>(outcome.bound));
    EXPECT_LE(outcome.most_resident_of_edge, kEdgeMemory);
  }
  EXPECT_TRUE(outcome.accepts) << "a new client is not served";
  EXPECT_TRUE(outcome.settled) << "memory is not released";
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_LE(outcome.stop_seconds, kLongestStop);
}

void Attacked(const Attack& attack, Way way) {
  std::vector<Callers> callers = {{.count = 1, .call_bytes = 4 << 10},
                                  {.count = 1, .call_bytes = 4 * kMiB}};
  if (attack.takes_streams) {
    callers.push_back({.count = 1, .call_bytes = 1 * kMiB, .streams = true});
  }
  const milliseconds during = std::max(least_time, attack.moment);
  DuelTimes times = {.before = milliseconds(50), .during = during};
  if (beside_honest) {
    callers = UsualCallers();
    times.honest = during;
  }
  ExpectUnharmed(
      RunDuel(attack, {.budget = kBudget, .way = way}, times, callers), way,
      // Does not probe if the attack's connections use up the
      // descriptors: none is left for another client at the same
      // address.
      /*probe=*/attack.descriptors == 0);
}

std::vector<Attack> Chosen(Way way) {
  // Attacks whose effect differs if the attacker has a token or a certificate.
  constexpr std::string_view kMutual[] = {
      "bad_requests", "bad_tokens",     "headers_only",
      "slow_jobs",    "silent_streams", "unread_replies",
  };
  std::vector<Attack> chosen;
  for (const Attack& attack : Attacks()) {
    if (way == Way::kEdge || way == Way::kStranger ||
        (!attack.by_strangers &&
         (way == Way::kMutual ? std::ranges::count(kMutual, attack.name) != 0
                              : !attack.without_token))) {
      chosen.push_back(attack);
    }
  }
  return chosen;
}

std::string NameOf(const testing::TestParamInfo<Attack>& info) {
  return std::string(info.param.name);
}

class EdgeTest : public testing::TestWithParam<Attack> {};
TEST_P(EdgeTest, AttackHarmsNoGoodClient) {
  if (!Edge::IsHere()) GTEST_SKIP() << "haproxy is not installed: NOT TESTED";
  Attacked(GetParam(), Way::kEdge);
}
INSTANTIATE_TEST_SUITE_P(All, EdgeTest, testing::ValuesIn(Chosen(Way::kEdge)),
                         NameOf);

class NeighbourTest : public testing::TestWithParam<Attack> {};
TEST_P(NeighbourTest, AttackHarmsNoGoodClient) {
  Attacked(GetParam(), Way::kPlain);
}
INSTANTIATE_TEST_SUITE_P(All, NeighbourTest,
                         testing::ValuesIn(Chosen(Way::kPlain)), NameOf);

class KnownClientTest : public testing::TestWithParam<Attack> {};
TEST_P(KnownClientTest, AttackHarmsNoGoodClient) {
  Attacked(GetParam(), Way::kMutual);
}
INSTANTIATE_TEST_SUITE_P(Some, KnownClientTest,
                         testing::ValuesIn(Chosen(Way::kMutual)), NameOf);

// Attackers without a certificate, which the server requires. Only by hand.
class StrangerTest : public testing::TestWithParam<Attack> {};
TEST_P(StrangerTest, AttackHarmsNoGoodClient) {
  Attacked(GetParam(), Way::kStranger);
}
INSTANTIATE_TEST_SUITE_P(All, StrangerTest,
                         testing::ValuesIn(Chosen(Way::kStranger)), NameOf);

TEST(AttackedServerTest, EndsWhileRepliesAreNotRead) {
  const Setting setting = {.budget = kBudget};
  AttackedServer server(setting, 0);
  ASSERT_TRUE(server.running());
  AttackerProcess attacker(server, setting, milliseconds(60'000),
                           {"unread_replies"});
  std::this_thread::sleep_for(milliseconds(500));
  const int code = server.Stop(kLongestStop);
  // Exit code 3 means that calls were cancelled.
  EXPECT_TRUE(code == 0 || code == 3) << code;
}

// Keeps memory at its limit, which reveals wrong reference counts. --seconds
// sets the time.
TEST(PressureTest, NeverEndingHealthChecksBesideLargeCalls) {
  ExpectUnharmed(
      RunDuel(*FindAttack("never_ending_health"), {.budget = kBudget},
              {.before = milliseconds(50),
               .during = std::max(least_time, milliseconds(3000)),
               .deadline = milliseconds(30'000)},
              {{.count = 2, .call_bytes = 32 * kMiB}}),
      Way::kPlain);
}

}  // namespace
}  // namespace quantd::attack

int main(int argc, char** argv) {
  constexpr std::string_view kSeconds = "--seconds=";
  testing::InitGoogleTest(&argc, argv);
  if (!quantd::attack::Edge::IsHere()) {
    std::cerr << "haproxy is missing: attacks through the edge are NOT TESTED "
                 "(deploy/install-deps.sh --checks installs it)\n";
  }
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--honest") quantd::attack::beside_honest = true;
    if (!word.starts_with(kSeconds)) continue;
    quantd::attack::least_time = std::chrono::milliseconds(
        std::atoll(word.substr(kSeconds.size()).data()) * 1000);
  }
  return RUN_ALL_TESTS();
}
