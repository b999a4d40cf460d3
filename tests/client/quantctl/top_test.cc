// `quantctl top`: what it makes of pages, of hostile ones above all, and the
// program against a server.
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "client/quantctl/top/fetch.h"
#include "client/quantctl/top/fleet.h"
#include "client/quantctl/top/reading.h"
#include "client/quantctl/top/samples.h"
#include "client/quantctl/top/table.h"
#include "fmt/format.h"
#include "tests/bench/rpc_process.h"
#include "tests/client/loopback_listener.h"
#include "tests/client/quantctl/cli_fixture.h"

namespace quantd::quantctl {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

std::string PageOf(double started, double calls, double slow) {
  return fmt::format(
      "# HELP quantd_build_info 1; \"{{\n"
      "quantd_build_info{{version=\"1.2\",grpc=\"1.51\"}} 1\n"
      "quantd_serving 1\n"
      "process_start_time_seconds {}\n"
      "quantd_requests_total{{method=\"Quantize\"}} {}\n"
      "quantd_errors_total{{method=\"Quantize\",code=\"RESOURCE_EXHAUSTED\","
      "reason=\"BUSY\"}} {}\n"
      "quantd_errors_total{{method=\"Quantize\",code=\"INTERNAL\",reason="
      "\"DEVICE_FAULT\"}} 0\n"
      "quantd_request_bytes_total{{method=\"Quantize\"}} {}\n"
      "quantd_request_duration_seconds_bucket{{method=\"Quantize\",le="
      "\"0.001\"}} {}\n"
      "quantd_request_duration_seconds_bucket{{method=\"Quantize\",le="
      "\"0.002\"}} {} # {{trace_id=\"ab\"}} 0.0015 1.5\n"
      "quantd_request_duration_seconds_bucket{{method=\"Quantize\",le="
      "\"+Inf\"}} {}\n"
      "quantd_request_duration_seconds_bucket{{method=\"GetServerInfo\",le="
      "\"0.001\"}} 1000000\n"
      "quantd_device_state{{device=\"cuda:0\",state=\"healthy\"}} 0\n"
      "quantd_device_state{{device=\"cuda:0\",state=\"quarantined\"}} 1\n"
      "quantd_device_state{{device=\"cuda:1\",state=\"healthy\"}} 1\n"
      "quantd_active_calls 3\n"
      "quantd_memory_waiting_calls 2\n"
      "quantd_device_queued_calls{{device=\"cuda:0\"}} 5\n"
      "process_resident_memory_bytes 1.5e9\n"
      "quantd_memory_bound_bytes 8000000000\n",
      started, calls, calls / 10, calls * 1e6, calls - slow, calls, calls);
}

Reading ReadingOf(const std::string& page, double at) {
  auto reading = ReadPage(page);
  EXPECT_THAT(reading, IsOk());
  reading->at = std::chrono::steady_clock::time_point() +
                std::chrono::milliseconds(static_cast<int64_t>(at * 1e3));
  return *reading;
}

TEST(TopReading, TwoLooksGiveRatesAndQuantilesBetweenThem) {
  const Reading before = ReadingOf(PageOf(5, 100, 0), 10);
  const Reading now = ReadingOf(PageOf(5, 300, 100), 12);
  const Activity activity = Between(before, now);
  EXPECT_DOUBLE_EQ(activity.calls_per_second, 100);
  EXPECT_DOUBLE_EQ(activity.refused_per_second, 10);
  EXPECT_DOUBLE_EQ(activity.failed_per_second, 0);
  EXPECT_DOUBLE_EQ(activity.bytes_per_second, 1e8);
  // 100 calls up to a millisecond, 100 from there to two.
  EXPECT_DOUBLE_EQ(activity.Quantile(0.5), 0.001);
  EXPECT_DOUBLE_EQ(activity.Quantile(0.75), 0.0015);
  EXPECT_EQ(now.in_flight, 3);
  EXPECT_EQ(now.waiting, 7);
  EXPECT_EQ(now.devices.at("cuda:0"), "quarantined");
  EXPECT_LT(Between(now, now).Quantile(0.5), 0);
}

TEST(TopReading, ARestartCountsFromThereAndNothingIsNegative) {
  const Reading before = ReadingOf(PageOf(5, 1000, 0), 10);
  const Activity activity = Between(before, ReadingOf(PageOf(6, 10, 0), 12));
  EXPECT_GT(activity.calls_per_second, 0);
  // Counters that fall without a restart.
  const Activity fallen = Between(before, ReadingOf(PageOf(5, 10, 0), 12));
  EXPECT_EQ(fallen.calls_per_second, 0);
  EXPECT_LT(fallen.Quantile(0.99), 0);
}

TEST(TopSamples, WhatIsMalformedIsPassedOver) {
  const char* const wrong[] = {"a",
                               "a{",
                               "a{b",
                               "a{b=",
                               "a{b=\"",
                               "a{b=\"c\"",
                               "a{b=\"c\"}",
                               "a{b=\"c\"}1",
                               "a{b=\"c\\",
                               "{} 1",
                               "a{b=\"c\"d=\"e\"} 1",
                               "a 1x",
                               "a nan",
                               "a inf",
                               "a 1e400",
                               "a -1e19",
                               "a  1",
                               "\xff 1",
                               "a{b=c} 1",
                               "a{,b=\"c\"} 1"};
  for (const char* line : wrong) {
    EXPECT_EQ(ForEachSample(line, [&](const Sample&) { FAIL() << line; }), 1u)
        << line;
  }
  std::string many = "a{";
  for (int i = 0; i < 1000; ++i) many += fmt::format("l{}=\"\",", i);
  EXPECT_EQ(ForEachSample(many + "l=\"\"} 1", [](const Sample&) { FAIL(); }),
            1u);
  int good = 0;
  EXPECT_EQ(
      ForEachSample("a 1\r\nb{c=\"d\\\"\\\\\\n\x1b[2J\"} 2.5 17\n\n# x\nz",
                    [&](const Sample& sample) {
                      ++good;
                      if (sample.name == "b") {
                        EXPECT_EQ(sample["c"], "d\"\\ ?[2J");
                        EXPECT_EQ(sample.value, 2.5);
                      }
                    }),
      1u);
  EXPECT_EQ(good, 2);
}

TEST(TopTable, FitsEightyColumnsWhateverAServerSays) {
  std::string page = PageOf(5, 1e17, 5e16);
  for (int i = 0; i < 1000; ++i) {
    page += fmt::format(
        "quantd_device_state{{device=\"{}\x1b[2J{}\",state=\"\x07\"}} 1\n",
        std::string(500, 'd'), i);
    page += fmt::format(
        "quantd_request_duration_seconds_bucket{{method=\"Q\",le=\"{}\"}} "
        "1e18\n",
        i);
  }
  page += "quantd_active_calls 1e18\nprocess_resident_memory_bytes 1e18\n";
  ServerRow row{"[2001:db8:1234:5678:9abc:def0:1234:5678]:9151",
                absl::OkStatus(),
                ReadingOf(page, 1),
                {}};
  EXPECT_LE(row.now.devices.size(), 64u);
  EXPECT_LE(row.now.durations.size(), 64u);
  row.activity = Between(ReadingOf(PageOf(5, 0, 0), 0.999), row.now);
  const ServerRow gone{"10.0.0.9:9151",
                       absl::UnavailableError("Connection \x1b[1mrefused" +
                                              std::string(200, '!')),
                       {},
                       {}};
  for (const std::string& line : TopTable({row, gone, row})) {
    EXPECT_LE(line.size(), 80u) << line;
    for (const char c : line) EXPECT_TRUE(c >= ' ' && c <= '~') << line;
  }
  const auto json = nlohmann::json::parse(TopJson({row, gone}));
  EXPECT_EQ(json["servers"].size(), 2u);
}

TEST(TopTable, NumbersAreShort) {
  EXPECT_EQ(ShortNumber(0), "0");
  EXPECT_EQ(ShortNumber(7), "7");
  EXPECT_EQ(ShortNumber(1.234), "1.23");
  EXPECT_EQ(ShortNumber(12.34), "12.3");
  EXPECT_EQ(ShortNumber(9999), "9999");
  EXPECT_EQ(ShortNumber(12'345), "12.3k");
  EXPECT_EQ(ShortNumber(1.2e9), "1200M");
  EXPECT_EQ(ShortDuration(180e-6), "180us");
  EXPECT_EQ(ShortDuration(2.5e-3), "2.50ms");
  EXPECT_EQ(ShortDuration(1.2), "1.20s");
  EXPECT_EQ(ShortDuration(-1), "-");
}

// Answers one connection with these bytes, and then hangs up or, as told, goes
// on for ever.
absl::StatusOr<std::string> FetchFrom(const std::string& bytes, bool endless) {
  const LoopbackListener listener(4);
  std::thread server([&] {
    const int fd = accept(listener.fd(), nullptr, nullptr);
    char request[1024];
    [[maybe_unused]] const auto n = recv(fd, request, sizeof(request), 0);
    do {
      if (send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) break;
    } while (endless);
    close(fd);
  });
  auto page = FetchPage(listener.target(), std::chrono::milliseconds(5000));
  server.join();
  return page;
}

TEST(TopFetch, TakesWholePagesAlone) {
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Length: ";
  const auto page = FetchFrom(head + "3\r\n\r\nabc", false);
  ASSERT_THAT(page, IsOk());
  EXPECT_EQ(*page, "abc");
  for (const std::string& wrong :
       {std::string(), std::string("HTTP/1.1 200 OK\r\n"),
        head + "4\r\n\r\nabc", std::string("HTTP/1.1 404 Not Found\r\n\r\nx"),
        std::string("\x16\x03\x01\r\n\r\n"), std::string("HTTP/1.1\r\n\r\n")}) {
    EXPECT_TRUE(absl::IsUnavailable(FetchFrom(wrong, false).status())) << wrong;
  }
  const auto endless = FetchFrom(std::string(1 << 16, 'x'), true);
  EXPECT_THAT(std::string(endless.status().message()),
              HasSubstr("its page has no end"));
  // One that says nothing.
  const LoopbackListener silent(4);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(absl::IsUnavailable(
      FetchPage(silent.target(), std::chrono::milliseconds(200)).status()));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST_F(Cli, TopShowsServersThatAreThereAndThoseThatAreNot) {
  bench::ServerProcess server({std::getenv("QUANTD"), "--listen", "127.0.0.1:0",
                               "--metrics-address", "127.0.0.1:0",
                               "--memory-budget", "64MiB"});
  ASSERT_TRUE(server.running()) << server.Log();
  const std::string log = server.Log();
  const size_t url = log.find("url=http://") + 11;
  const std::string metrics = log.substr(url, log.find("/metrics", url) - url);
  // A port that was free a moment ago.
  const std::string nobody = LoopbackListener(1).target();
  const quantd::Outcome once =
      Run({"top", metrics, nobody, "--once", "--interval", "0.1", "--json"});
  EXPECT_EQ(once.code, 0) << once.err;
  const auto json = once.Json();
  ASSERT_EQ(json["servers"].size(), 2u) << once.out;
  EXPECT_EQ(json["servers"][0]["devices"]["cpu:0"], "healthy");
  EXPECT_GT(json["servers"][0]["memory_bound_bytes"], 0);
  EXPECT_TRUE(json["servers"][1].contains("error"));
  const quantd::Outcome table =
      Run({"top", metrics, "--once", "--interval", "0.1"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("SERVER "));
  EXPECT_THAT(table.out, EndsWith("1/1\n"));
  EXPECT_EQ(table.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(Run({"top", nobody, "--once", "--interval", "0.1"}).code, 4);

  // Ctrl-C ends it at once, as a shell expects.
  const pid_t live = Start({"top", metrics, "--interval", "0.1"});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(live, SIGINT);
  EXPECT_EQ(Wait(live).code, 128 + SIGINT);
}

}  // namespace
}  // namespace quantd::quantctl
