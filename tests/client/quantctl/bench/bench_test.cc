// quantctl bench: the pace of calls, and the command.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "client/quantctl/bench/cell.h"
#include "client/quantctl/bench/rate_plot.h"
#include "client/quantctl/bench/rounds.h"
#include "tests/client/quantctl/cli_fixture.h"

namespace quantd {
namespace {

using quantctl::Load;
using quantctl::RunLoad;
using testing::HasSubstr;

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

TEST(Rounds, EachGoesFirstAndSharesTheLoad) {
  std::string order;
  std::vector<quantctl::Contender> contenders;
  for (const char name : {'a', 'b', 'c'}) {
    contenders.push_back({[&order, name] {
      order += name;
      return absl::OkStatus();
    }});
  }
  Load load;
  load.calls = 6;
  const std::atomic<int> stop = 0;
  ASSERT_THAT(quantctl::RunRounds(load, 3, &contenders, stop), IsOk());
  EXPECT_EQ(order, "aabbccbbccaaccaabb");
  for (const auto& c : contenders) {
    EXPECT_EQ(c.outcome.good, 6);
    EXPECT_EQ(c.calls_per_s.size(), 3);
  }
  // No more rounds than calls.
  load.calls = 2;
  order.clear();
  ASSERT_THAT(quantctl::RunRounds(load, 5, &contenders, stop), IsOk());
  EXPECT_EQ(order, "abcbca");
}

TEST(Rounds, OnlyTheFirstMayFail) {
  std::vector<quantctl::Contender> contenders = {
      {[] { return absl::ResourceExhaustedError("busy"); }},
      {[] { return absl::OkStatus(); }}};
  Load load;
  load.calls = 10;
  const std::atomic<int> stop = 0;
  EXPECT_THAT(quantctl::RunRounds(load, 5, &contenders, stop), IsOk());
  EXPECT_EQ(contenders[0].outcome.refused, 10);
  std::swap(contenders[0], contenders[1]);
  EXPECT_THAT(quantctl::RunRounds(load, 5, &contenders, stop),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

quantctl::Cell CellOf(uint64_t bytes, double rate, double echo) {
  quantctl::Cell cell;
  cell.bytes = bytes;
  cell.gb_per_s = {rate, 100, rate, 0, rate};
  cell.echoes = {{{}, {echo / 2, echo, echo / 2}},
                 {{1 << 20, 4, true}, {1, echo, 50}}};
  return cell;
}

TEST(BenchCell, IsComparedWithTheBestMedian) {
  const auto cell = CellOf(4096, 3, 4);
  ASSERT_NE(cell.best_echo(), nullptr);
  EXPECT_EQ(cell.best_echo()->how.piece_bytes, 1 << 20);
  EXPECT_EQ(cell.best_echo()->text(), "4 streams of 1.00 MiB");
  EXPECT_EQ(cell.echoes[0].text(), "one message");
  EXPECT_DOUBLE_EQ(cell.of_echo(), 0.75);
  EXPECT_DOUBLE_EQ(cell.calls_per_s(), 3e9 / 4096);
  EXPECT_EQ(quantctl::Cell().of_echo(), 0);
}

// Every element is closed, and by its own name.
bool IsWellFormed(const std::string& xml) {
  std::vector<std::string> open;
  size_t at = 0;
  while ((at = xml.find('<', at)) != std::string::npos) {
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos ||
        std::count(tag.begin(), tag.end(), '"') % 2 != 0) {
      return false;
    }
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '/') {
      if (open.empty() || "/" + open.back() != tag) return false;
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(name);
    }
    at = end;
  }
  return open.empty() && xml.starts_with("<svg ");
}

TEST(RatePlot, HasALineForEachAndItsEcho) {
  ASSERT_FALSE(IsWellFormed("<svg ><a></svg>"));
  ASSERT_FALSE(IsWellFormed("<svg ><a b=\"></a></svg>"));
  std::vector<quantctl::Cell> cells = {CellOf(4096, 1, 2),
                                       CellOf(1 << 20, 3, 4)};
  cells.push_back(cells[1]);
  cells.back().load.callers = 8;
  const std::string svg = quantctl::RatePlot("title", cells);
  EXPECT_TRUE(IsWellFormed(svg)) << svg;
  for (const char* text :
       {">title<", ">4.00 KiB<", ">1.00 MiB<", ">quantize, 1 caller<",
        ">echo, 1 caller<", ">quantize, 8 callers<", ">echo, 8 callers<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  // The top of 5 GB/s is 260 px above 0, which is at 300.
  EXPECT_THAT(svg, HasSubstr("cy=\"144.0\""));  // 3
  EXPECT_THAT(svg, HasSubstr("cy=\"92.0\""));   // 4
  for (quantctl::Cell& c : cells) c.echoes.clear();
  const std::string alone = quantctl::RatePlot("title", cells);
  EXPECT_TRUE(IsWellFormed(alone));
  EXPECT_EQ(alone.find("echo"), std::string::npos);
  EXPECT_TRUE(IsWellFormed(quantctl::RatePlot("nothing", {quantctl::Cell()})));
}

TEST_F(Cli, BenchComparesWithAnEcho) {
  const Outcome run =
      RunServed({"bench", "--sizes", "4KiB,8MiB", "--seconds", "0.2",
                 "--rounds", "2", "--rowwise-amax", "4", "--echo", "self",
                 "--band-bytes", "1MiB", "--svg", At("rates.svg"), "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  const auto json = run.Json();
  EXPECT_EQ(json["echo"], "self");
  EXPECT_EQ(json["band_bytes"], 1 << 20);
  ASSERT_EQ(json["cells"].size(), 2);
  for (const auto& cell : json["cells"]) {
    const auto& echo = cell["echo"];
    EXPECT_EQ(cell["rounds"].size(), 2);
    EXPECT_GT(echo["input_gb_per_s"], 0);
    EXPECT_NEAR(echo["of_echo"].get<double>(),
                cell["input_gb_per_s"].get<double>() /
                    echo["input_gb_per_s"].get<double>(),
                1e-6);
    for (const auto& way : echo["arrangements"]) {
      EXPECT_EQ(way["rounds"].size(), 2);
      EXPECT_LE(way["input_gb_per_s"], echo["input_gb_per_s"]);
    }
  }
  // Of NVFP4: half a byte and a scale for each 16, and the amax.
  EXPECT_GE(json["cells"][1]["reply_bytes"], (8 << 20) / 32 * 9);
  EXPECT_LT(json["cells"][1]["reply_bytes"], (8 << 20) / 32 * 9 + 1024);
  EXPECT_EQ(json["cells"][0]["echo"]["arrangements"].size(), 1);
  const auto& ways = json["cells"][1]["echo"]["arrangements"];
  ASSERT_EQ(ways.size(), 3);
  for (const auto& way : ways) EXPECT_EQ(way["in_then_out"], false);
  EXPECT_TRUE(IsWellFormed(ReadFile(At("rates.svg"))));

  const Outcome table = RunServed(
      {"bench", "--sizes", "4KiB", "--seconds", "0.05", "--echo", "self"});
  EXPECT_THAT(table.out, HasSubstr("of echo"));
  const Outcome alone =
      RunServed({"bench", "--sizes", "4KiB", "--seconds", "0.05", "--json"});
  EXPECT_EQ(alone.Json()["cells"][0]["echo"], nullptr);
}

// The ceiling of a call whose amax must be known first has no byte come back
// before all are there.
TEST_F(Cli, BenchTakesTheAmaxBothWays) {
  const Outcome run = RunServed(
      {"bench", "--sizes", "8MiB", "--seconds", "0.1", "--rounds", "1",
       "--amax", "given,computed", "--rht", "rowwise", "--band-bytes", "1MiB",
       "--connections", "3", "--echo", "self", "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  const auto json = run.Json();
  ASSERT_EQ(json["cells"].size(), 2);
  for (const auto& cell : json["cells"]) {
    const bool computed = cell["amax"] == "computed";
    EXPECT_EQ(computed, &cell != &json["cells"][0]);
    for (const auto& way : cell["echo"]["arrangements"]) {
      EXPECT_EQ(way["in_then_out"], computed && way["piece_bytes"] != 0);
      EXPECT_EQ(way["streamed"] == true && computed, false);
    }
  }
  const Outcome table = RunServed(
      {"bench", "--sizes", "4KiB", "--seconds", "0.05", "--amax", "computed"});
  EXPECT_THAT(table.out, HasSubstr("computed"));
  const Outcome none = RunServed({"bench", "--amax", "guessed"});
  EXPECT_EQ(none.code, 2);
}

TEST_F(Cli, BenchLeavesOutWhatDoesNotFit) {
  const Outcome run = RunServed(
      {"bench", "--sizes", "256TiB,4KiB", "--seconds", "0.05", "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("left out"));
  EXPECT_EQ(run.Json()["cells"].size(), 1);
}

TEST_F(Cli, BenchSaysSoonWhereItCannotDraw) {
  const Outcome run =
      RunServed({"bench", "--sizes", "4KiB", "--svg", At("no/such/file.svg")});
  EXPECT_EQ(run.code, 7);
  EXPECT_EQ(run.out, "");
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
