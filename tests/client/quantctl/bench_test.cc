// quantctl bench: the histogram, the pace of calls, and the command.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include "client/quantctl/bench/histogram.h"
#include "client/quantctl/bench/load.h"
#include "tests/client/quantctl/cli_fixture.h"

namespace quantd {
namespace {

using quantctl::Histogram;
using quantctl::Load;
using quantctl::RunLoad;
using testing::HasSubstr;

TEST(Histogram, QuantilesAreWithinTheirBound) {
  std::mt19937_64 random(7);
  std::vector<uint64_t> values;
  Histogram all;
  Histogram parts[2];
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t value = random() >> (24 + random() % 40);
    values.push_back(value);
    all.Add(value);
    parts[i % 2].Add(value);
  }
  parts[0].Merge(parts[1]);
  std::sort(values.begin(), values.end());
  for (const double q : {0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<size_t>(
        std::max(1.0, std::ceil(q * static_cast<double>(values.size()))));
    const uint64_t exact = values[rank - 1];
    const uint64_t given = all.Quantile(q);
    EXPECT_GE(given, exact) << q;
    EXPECT_LE(given, exact + exact / 128) << q;
    EXPECT_EQ(parts[0].Quantile(q), given) << q;
  }
  EXPECT_EQ(parts[0].count(), values.size());
  EXPECT_EQ(parts[0].max(), values.back());
}

TEST(Histogram, EveryEdgeOfABucketIsInIt) {
  for (int power = 0; power < 40; ++power) {
    for (const int64_t off : {-1, 0, 1}) {
      const uint64_t value = (uint64_t{1} << power) + off;
      if (value >= uint64_t{1} << 40) continue;
      Histogram one;
      one.Add(value);
      one.Add(UINT64_MAX);  // so that the maximum hides nothing
      EXPECT_GE(one.Quantile(0.5), value);
      EXPECT_LE(one.Quantile(0.5), value + value / 128);
    }
  }
}

TEST(Histogram, NothingAndTooMuch) {
  Histogram h;
  EXPECT_EQ(h.Quantile(0.5), 0);
  h.Add(UINT64_MAX);
  h.Add(uint64_t{1} << 40);
  EXPECT_EQ(h.Quantile(0.5), UINT64_MAX);
  EXPECT_EQ(h.count(), 2);
}

// One call of twenty stands still for 200 ms. Calls that were due meanwhile
// have waited, which only an open loop knows.
TEST(Load, WaitingCallsAreNotLeftOut) {
  const auto median_us = [](double rate) {
    std::atomic<int> made = 0;
    const std::atomic<int> stop = 0;
    Load load;
    load.rate = rate;
    load.seconds = 0.2;
    load.calls = 20;
    const auto outcome = RunLoad(
        load,
        [&] {
          if (made++ == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
          }
          return absl::OkStatus();
        },
        stop);
    EXPECT_EQ(outcome.nanoseconds.count(), 20);
    return outcome.nanoseconds.Quantile(0.5) / 1000;
  };
  EXPECT_GE(median_us(100), 90'000);
}

TEST(Load, AClosedLoopEndsWithItsCallsOrItsTime) {
  std::atomic<int> now = 0;
  std::atomic<int> most = 0;
  const std::atomic<int> stop = 0;
  const auto call = [&] {
    const int here = ++now;
    int seen = most;
    while (here > seen && !most.compare_exchange_weak(seen, here)) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --now;
    return absl::OkStatus();
  };
  Load load;
  load.callers = 3;
  load.calls = 50;
  EXPECT_EQ(RunLoad(load, call, stop).good, 50);
  EXPECT_LE(most, 3);
  load.calls = 1'000'000;
  load.seconds = 0.05;
  const auto timed = RunLoad(load, call, stop);
  EXPECT_GT(timed.good, 0);
  EXPECT_LT(timed.good, 1'000'000);
}

TEST(Load, CountsWhatDidNotComeBackWell) {
  std::atomic<int> made = 0;
  const std::atomic<int> stop = 0;
  Load load;
  load.calls = 30;
  const auto outcome = RunLoad(
      load,
      [&]() -> absl::Status {
        switch (made++ % 3) {
          case 0:
            return absl::ResourceExhaustedError("busy");
          case 1:
            return absl::InternalError("broken");
          default:
            return {};
        }
      },
      stop);
  EXPECT_EQ(outcome.refused, 10);
  EXPECT_EQ(outcome.failed, 10);
  EXPECT_EQ(outcome.good, 10);
  EXPECT_EQ(outcome.nanoseconds.count(), 10);
  EXPECT_EQ(outcome.error.message(), "busy");
}

TEST(Load, SaysWhatWasNeverSent) {
  const std::atomic<int> stop = 0;
  Load load;
  load.rate = 1000;
  load.seconds = 0.05;
  const auto outcome = RunLoad(
      load,
      [] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return absl::OkStatus();
      },
      stop);
  EXPECT_GT(outcome.unsent, 0);
  EXPECT_EQ(outcome.good + outcome.unsent, 50);
  EXPECT_EQ(outcome.nanoseconds.count(), 50);
}

TEST(Load, StopsWhenTold) {
  const std::atomic<int> stop = SIGINT;
  EXPECT_EQ(RunLoad(
                {}, [] { return absl::OkStatus(); }, stop)
                .good,
            0);
}

TEST_F(Cli, BenchMeasuresBothLoops) {
  const Outcome closed = RunServed(
      {"bench", "--sizes", "4KiB,1MiB", "--callers", "1,2", "--seconds", "0.1",
       "--rht", "rowwise", "--rowwise-amax", "4", "--json"});
  ASSERT_EQ(closed.code, 0) << closed.err;
  const auto json = closed.Json();
  EXPECT_EQ(json["checked"], true);
  ASSERT_EQ(json["cells"].size(), 4);
  EXPECT_EQ(json["cells"][3]["bytes"], 1 << 20);
  EXPECT_EQ(json["cells"][3]["callers"], 2);
  for (const auto& cell : json["cells"]) {
    EXPECT_GT(cell["calls"], 0);
    EXPECT_EQ(cell["failed"], 0);
    EXPECT_GT(cell["input_gb_per_s"], 0);
    EXPECT_LE(cell["latency_ns"]["p50"], cell["latency_ns"]["max"]);
  }
  const Outcome open = RunServed(
      {"bench", "--sizes", "4KiB", "--rate", "20,40", "--seconds", "0.2"});
  ASSERT_EQ(open.code, 0) << open.err;
  EXPECT_THAT(open.out, HasSubstr("p99.9 ms"));
  EXPECT_THAT(open.out, HasSubstr("4.00 KiB"));
}

// An interrupt that comes before the first call leaves nothing to tell.
TEST_F(Cli, BenchEndsWithItsTableWhenInterrupted) {
  Outcome run;
  for (int ms = 500; ms <= 16'000 && run.out.empty(); ms *= 4) {
    const pid_t pid =
        Start({"bench", "--sizes", "4KiB", "--seconds", "120", "--calls",
               "100000000", "--json", "--server", address_});
    ASSERT_GT(pid, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    ASSERT_EQ(kill(pid, SIGINT), 0);
    run = Wait(pid);
    EXPECT_EQ(run.code, 128 + SIGINT);
  }
  const auto json = run.Json();
  EXPECT_EQ(json["interrupted"], true);
  ASSERT_EQ(json["cells"].size(), 1);
  EXPECT_GT(json["cells"][0]["calls"], 0);
}

TEST_F(Cli, BenchNeedsAServerAndWholeRows) {
  const Outcome nobody =
      Run({"bench", "--server", "127.0.0.1:1", "--sizes", "4KiB"});
  EXPECT_EQ(nobody.code, 4);
  EXPECT_THAT(nobody.err, HasSubstr("Start a server with"));
  const Outcome odd =
      Run({"bench", "--server", "127.0.0.1:1", "--sizes", "5000"});
  EXPECT_EQ(odd.code, 2);
  EXPECT_THAT(odd.err, HasSubstr("no whole rows"));
  EXPECT_EQ(Run({"bench", "--callers", "0"}).code, 2);
}

}  // namespace
}  // namespace quantd
