// Tests of `quantctl bench`: the load generator, and the command.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "client/quantctl/bench/load.h"
#include "tests/client/quantctl/cli_fixture.h"

namespace quantd {
namespace {

using quantctl::Load;
using quantctl::RunLoad;
using testing::HasSubstr;

// One of twenty calls takes 200 ms. Calls that are due meanwhile wait, and only
// an open loop counts that wait.
TEST(Load, OpenLoopCountsWaiting) {
  const auto median_us = [](double rate) {
    std::atomic<int> made = 0;
    const std::atomic<int> stop = 0;
    Load load;
    load.rate = rate;
    load.seconds = 0.2;
    load.calls = 20;
    const auto outcome = RunLoad(
        load,
        [&](int) {
          if (made++ == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
          }
          return absl::OkStatus();
        },
        stop);
    EXPECT_EQ(outcome.nanoseconds.size(), 20);
    return outcome.Quantile(0.5) / 1000;
  };
  EXPECT_GE(median_us(100), 90'000);
}

TEST(Load, ClosedLoopEndsByCountOrTime) {
  std::atomic<int> now = 0;
  std::atomic<int> most = 0;
  const std::atomic<int> stop = 0;
  const auto call = [&](int) {
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

TEST(Load, CountsFailedCalls) {
  std::atomic<int> made = 0;
  const std::atomic<int> stop = 0;
  Load load;
  load.calls = 30;
  const auto outcome = RunLoad(
      load,
      [&](int) -> absl::Status {
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
  EXPECT_EQ(outcome.nanoseconds.size(), 10);
  EXPECT_EQ(outcome.errors.at(absl::StatusCode::kInternal), 10);
  EXPECT_EQ(outcome.error.message(), "busy");
}

TEST(Load, CountsCallsThatWereNeverSent) {
  const std::atomic<int> stop = 0;
  Load load;
  load.rate = 1000;
  load.seconds = 0.05;
  const auto outcome = RunLoad(
      load,
      [](int) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return absl::OkStatus();
      },
      stop);
  EXPECT_GT(outcome.unsent, 0);
  EXPECT_EQ(outcome.good + outcome.unsent, 50);
  EXPECT_EQ(outcome.nanoseconds.size(), 50);
}

TEST(Load, StopsOnRequest) {
  const std::atomic<int> stop = SIGINT;
  EXPECT_EQ(RunLoad(
                {}, [](int) { return absl::OkStatus(); }, stop)
                .good,
            0);
}

TEST(Outcome, QuantileIsTheSmallestValueThatCoversItsShare) {
  quantctl::Outcome x;
  EXPECT_EQ(x.Quantile(0.5), 0);
  x.nanoseconds = {1, 2, 3, 4, 5, 6, 7, 8, 9, 100};
  EXPECT_EQ(x.Quantile(0), 1);
  EXPECT_EQ(x.Quantile(0.5), 5);
  EXPECT_EQ(x.Quantile(0.9), 9);
  EXPECT_EQ(x.Quantile(0.99), 100);
  EXPECT_EQ(x.Quantile(1), 100);
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
    EXPECT_GT(cell["gb_per_s"], 0);
    EXPECT_TRUE(cell["errors"].empty());
    EXPECT_LE(cell["latency_ns"]["p50"], cell["latency_ns"]["max"]);
  }
  ASSERT_THAT(
      RunServed(
          {"bench", "--sizes", "4KiB", "--rate", "20,40", "--seconds", "0.2"}),
      Prints(0, testing::AllOf(HasSubstr("p99 ms"), HasSubstr("4.00 KiB"))));
}

TEST_F(Cli, BenchMeasuresEveryMethod) {
  for (const auto& [method, bytes] :
       {std::pair{"quantize", (8 << 20) / 32 * 9 + 4},
        {"dequantize", 8 << 20},
        {"amax", 4}}) {
    const Outcome run =
        RunServed({"bench", "--method", method, "--sizes", "8MiB", "--seconds",
                   "0.1", "--callers", "2", "--band-bytes", "1MiB", "--json"});
    ASSERT_EQ(run.code, 0) << run.err;
    const auto json = run.Json();
    EXPECT_EQ(json["method"], method);
    EXPECT_EQ(json["band_bytes"], 1 << 20);
    EXPECT_GT(json["cells"][0]["calls"], 0);
    EXPECT_EQ(json["cells"][0]["reply_bytes"], bytes);
  }
}

// SIGSTOP pauses the server for 500 ms while calls are in flight.
TEST_F(Cli, BenchReportsFailedCalls) {
  Outcome run;
  for (int ms = 300; ms <= 5000 && run.code != 6; ms *= 4) {
    const pid_t pid = Start({"bench", "--sizes", "4KiB", "--seconds",
                             std::to_string(ms * 3e-3), "--deadline", "0.3",
                             "--json", "--server", address_});
    ASSERT_GT(pid, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    server_->Signal(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    server_->Signal(SIGCONT);
    run = Wait(pid);
  }
  ASSERT_EQ(run.code, 6) << run.err;
  const auto cell = run.Json()["cells"][0];
  EXPECT_GT(cell["failed"], 0);
  EXPECT_EQ(cell["failed"], cell["errors"]["DEADLINE_EXCEEDED"]);
}

// After an interrupt before the first call there is nothing to report.
TEST_F(Cli, BenchPrintsItsTableWhenInterrupted) {
  Outcome run;
  for (int ms = 500; ms <= 16'000 && run.out.empty(); ms *= 4) {
    const pid_t pid =
        Start({"bench", "--sizes", "4KiB", "--seconds", "120", "--calls",
               "10000000", "--json", "--server", address_});
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
  EXPECT_THAT(Run({"bench", "--server", "127.0.0.1:1", "--sizes", "4KiB"}),
              Errs(4, HasSubstr("Start a server with")));
  EXPECT_THAT(Run({"bench", "--server", "127.0.0.1:1", "--sizes", "5000"}),
              Errs(2, HasSubstr("not a multiple of a row")));
  EXPECT_EQ(Run({"bench", "--callers", "0"}).code, 2);
  EXPECT_EQ(Run({"bench", "--method", "guess"}).code, 2);
  const Outcome large = RunServed({"bench", "--sizes", "256TiB"});
  EXPECT_EQ(large.code, 1);
  EXPECT_EQ(large.err.find("busy"), std::string::npos) << large.err;
}

}  // namespace
}  // namespace quantd
