// Tests of the metrics page of a server in this process. QUANTD_UPDATE_PAGES=1
// metrics_test updates deploy/METRICS.md.
#include "server/observe/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "server/observe/metrics_page.h"
#include "tests/server/server_fixture.h"
#include "tests/server/test_peer.h"
#include "tests/testing/generated_page.h"

namespace quantd {
namespace {

// Returns the table of deploy/METRICS.md.
std::string MetricsTable() {
  std::string table =
      "| name | type | labels | meaning |\n| --- | --- | --- | --- |\n";
  for (const MetricFamily& f : MetricFamilies()) {
    table += fmt::format("| `{}` | {} | {} | {} |\n", f.name, f.type, f.labels,
                         f.meaning);
  }
  return table;
}

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// The samples of the page by name with labels.
struct Page {
  std::map<std::string, double> samples;
  std::map<std::string, std::string> types;  // by family

  // Returns a sample, or NaN if the page lacks it.
  double operator[](const std::string& sample) const {
    const auto it = samples.find(sample);
    return it == samples.end() ? std::nan("") : it->second;
  }
};

Page Parse(const std::string& reply) {
  Page page;
  std::istringstream lines(reply.substr(reply.find("\r\n\r\n") + 4));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      EXPECT_TRUE(page.types.emplace(words[2], words[3]).second) << line;
    } else if (!line.starts_with("#")) {
      const size_t space = line.rfind(' ');
      EXPECT_TRUE(
          page.samples
              .emplace(line.substr(0, space), std::atof(line.c_str() + space))
              .second)
          << line;
    }
  }
  return page;
}

class MetricsTest : public ServerTest {
 protected:
  MetricsTest() { options_.metrics_address = "127.0.0.1:0"; }
  std::string Fetch(const std::string& path) {
    return Get(server_->metrics_address(), path);
  }
  Page Read() {
    const std::string reply = Fetch("/metrics");
    EXPECT_THAT(reply, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: "
                                  "text/plain; version=0.0.4"));
    return Parse(reply);
  }
  // Waits for a value, because a reply arrives a moment before its call ends.
  bool Reaches(const std::string& sample, double value) {
    return Eventually([&] { return Read()[sample] == value; });
  }
};

TEST_F(MetricsTest, ExportsTheDocumentedFamiliesAndLabels) {
  StartReal({"cpu:0"});
  const Page page = Read();
  std::map<std::string, std::set<std::string>> labels;  // by family
  for (const auto& [sample, value] : page.samples) {
    std::string name = sample.substr(0, sample.find('{'));
    for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
      const std::string stem = name.substr(0, name.rfind('_'));
      if (name.ends_with(suffix) && page.types.contains(stem)) name = stem;
    }
    std::set<std::string>& keys = labels[name];
    size_t at = 0;
    while ((at = sample.find("=\"", at)) != std::string::npos) {
      const size_t start = sample.find_last_of("{,", at) + 1;
      const std::string key = sample.substr(start, at - start);
      if (key != "le") keys.insert(key);
      at += 2;
    }
  }
  for (const MetricFamily& family : MetricFamilies()) {
    const std::string name(family.name);
    const auto type = page.types.find(name);
    ASSERT_NE(type, page.types.end()) << name;
    EXPECT_EQ(type->second, family.type);
    EXPECT_EQ(name.ends_with("_total"), family.type == "counter") << name;
    EXPECT_EQ(family.meaning.find_first_of("\\\n"), std::string::npos);
    std::set<std::string> documented =
        absl::StrSplit(std::string(family.labels), ", ", absl::SkipEmpty());
    EXPECT_EQ(labels[name], documented) << name;
  }
  EXPECT_EQ(page.types.size(), MetricFamilies().size());
  EXPECT_EQ(labels.size(), MetricFamilies().size());
}

TEST(MetricsPageTest, DocumentHasTheTable) {
  ExpectGenerated(QUANTD_METRICS_PAGE, "metrics",
                  fmt::format("\n{}\n", MetricsTable()));
}

TEST_F(MetricsTest, CountsCallsBytesStagesAndRotations) {
  StartReal({"cpu:0"});
  // The counts before the first call include the self-test.
  Page before = Read();
  v1::QuantizeRequest rotated = QuantizeOnes(64);
  rotated.mutable_options()->mutable_rht()->set_rowwise(true);
  const std::string request = rotated.SerializeAsString();
  double replied = 0;
  for (int i = 0; i < 3; ++i) {
    const RpcResult result = Call(channel_, request);
    ASSERT_TRUE(result.status.ok()) << result.status.error_message();
    replied += static_cast<double>(result.reply.size());
  }
  v1::QuantizeRequest wrong = QuantizeOnes(1);
  wrong.mutable_tensor()->set_shape(0, 2);
  ASSERT_FALSE(Call(channel_, wrong.SerializeAsString()).status.ok());

  ASSERT_TRUE(Reaches("quantd_requests_total{method=\"Quantize\"}", 4));
  const Page page = Read();
  EXPECT_EQ(page["quantd_errors_total{method=\"Quantize\",code=\"INVALID_"
                 "ARGUMENT\",reason=\"INVALID_FIELD\"}"],
            1);
  EXPECT_EQ(page["quantd_requests_total{method=\"Dequantize\"}"], 0);
  EXPECT_EQ(page["quantd_request_bytes_total{method=\"Quantize\"}"],
            static_cast<double>(3 * request.size() +
                                wrong.SerializeAsString().size()));
  EXPECT_EQ(page["quantd_reply_bytes_total{method=\"Quantize\"}"], replied);

  const auto stage = [&](const char* what, const char* name) {
    return page[fmt::format(
        "quantd_stage_duration_seconds_{}{{method="
        "\"Quantize\",stage=\"{}\"}}",
        what, name)];
  };
  EXPECT_EQ(stage("count", "wait"), 4);
  EXPECT_EQ(stage("count", "receive"), 4);
  double sum = 0;
  for (const char* name : {"queue", "gather", "kernel", "send"}) {
    EXPECT_EQ(stage("count", name), 3) << name;
    EXPECT_GT(stage("sum", name), 0) << name;
    sum += stage("sum", name);
  }
  // The CPU backend copies no tensors, so these stages stay empty.
  EXPECT_EQ(stage("count", "copy_in"), 0);
  EXPECT_EQ(stage("count", "copy_out"), 0);
  EXPECT_LT(sum, page["quantd_request_duration_seconds_sum{method=\"Quantize\"}"
                      ""]);

  const auto more = [&](const std::string& name) {
    const std::string sample = name + "{device=\"cpu:0\"}";
    return page[sample] - before[sample];
  };
  EXPECT_EQ(more("quantd_rht_cache_misses_total") +
                more("quantd_rht_cache_hits_total"),
            3);
  EXPECT_LE(more("quantd_rht_cache_misses_total"), 1);
  EXPECT_EQ(more("quantd_device_jobs_total"), 3);
  EXPECT_GE(page["quantd_pool_high_water_bytes{device=\"cpu:0\"}"], 64 * 2048);
  EXPECT_LT(page["quantd_pool_high_water_bytes{device=\"cpu:0\"}"],
            page["quantd_pool_limit_bytes{device=\"cpu:0\"}"]);
  EXPECT_EQ(page["quantd_memory_limit_bytes{account=\"receive\"}"] +
                page["quantd_memory_limit_bytes{account=\"cpu:0\"}"],
            page["quantd_memory_budget_bytes"]);
  EXPECT_GT(page["process_resident_memory_bytes"], 1 << 20);
  // With another allocator, such as a sanitizer's, mallinfo2 reports 0.
  const bool told = mallinfo2().uordblks > 0;
  EXPECT_GE(page["quantd_heap_used_bytes"], told ? 1 << 16 : 0);
  EXPECT_LT(page["quantd_heap_used_bytes"],
            page["process_virtual_memory_bytes"]);
  EXPECT_GT(page["process_open_fds"], 3);
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  EXPECT_NEAR(page["process_start_time_seconds"], now, 600);
}

TEST_F(MetricsTest, CountsCallsThatNeedNoDevice) {
  StartReal({"cpu:0"});
  RpcOptions options;
  options.method = "GetServerInfo";
  ASSERT_TRUE(Call(channel_, "", options).status.ok());
  options.method = "DescribeQuantize";
  ASSERT_FALSE(Call(channel_, "", options).status.ok());
  EXPECT_TRUE(Reaches("quantd_requests_total{method=\"GetServerInfo\"}", 1));
  EXPECT_TRUE(
      Reaches("quantd_errors_total{method=\"DescribeQuantize\",code="
              "\"INVALID_ARGUMENT\",reason=\"INVALID_FIELD\"}",
              1));
}

TEST_F(MetricsTest, ShowsCallsInFlightAndDeviceTimes) {
  StartFake(1);
  control_.Close();
  control_.Report({20'000, 30'000'000, 40'000});
  const std::string request = QuantizeOnes(64).SerializeAsString();
  std::vector<std::unique_ptr<RpcCall>> calls;
  for (int i = 0; i < 3; ++i) {
    calls.push_back(std::make_unique<RpcCall>(channel_, RpcOptions()));
    ASSERT_TRUE(calls.back()->Send(request));
    ASSERT_TRUE(calls.back()->HalfClose());
  }
  ASSERT_TRUE(control_.AwaitRunning(1));
  ASSERT_TRUE(Reaches("quantd_device_queued_calls{device=\"fake:0\"}", 2));
  const Page busy = Read();
  EXPECT_EQ(busy["quantd_active_calls"], 3);
  EXPECT_EQ(busy["quantd_device_slots{device=\"fake:0\"}"], 1);
  EXPECT_EQ(busy["quantd_device_slots_busy{device=\"fake:0\"}"], 1);
  EXPECT_GT(busy["quantd_memory_used_bytes{account=\"fake:0\"}"], 0);

  control_.Open();
  for (auto& call : calls) {
    call->Receive();
    EXPECT_TRUE(call->Finish().status.ok());
  }
  ASSERT_TRUE(Reaches("quantd_requests_total{method=\"Quantize\"}", 3));
  ASSERT_TRUE(Reaches("quantd_memory_used_bytes{account=\"fake:0\"}", 0));
  const Page idle = Read();
  EXPECT_EQ(idle["quantd_device_slots_busy{device=\"fake:0\"}"], 0);
  const auto stage = [&](const std::string& what, const std::string& labels) {
    return idle["quantd_stage_duration_seconds_" + what +
                "{method=\"Quantize\",stage=" + labels + "}"];
  };
  EXPECT_NEAR(stage("sum", "\"copy_in\""), 60e-6, 1e-9);
  EXPECT_NEAR(stage("sum", "\"kernel\""), 90e-3, 1e-9);
  EXPECT_NEAR(stage("sum", "\"copy_out\""), 120e-6, 1e-9);
  EXPECT_EQ(stage("bucket", "\"copy_in\",le=\"1e-05\""), 0);
  EXPECT_EQ(stage("bucket", "\"copy_in\",le=\"2.5e-05\""), 3);
  EXPECT_EQ(stage("bucket", "\"kernel\",le=\"0.025\""), 0);
  EXPECT_EQ(stage("bucket", "\"kernel\",le=\"0.05\""), 3);
  EXPECT_EQ(stage("bucket", "\"kernel\",le=\"+Inf\""), 3);
}

TEST_F(MetricsTest, ReportsALostDeviceAndFailedJobs) {
  StartFake();
  EXPECT_EQ(Read()["quantd_device_state{device=\"fake:0\",state=\"healthy\"}"],
            1);
  control_.Fail(absl::UnavailableError("out of service"));
  control_.SetHealthy(false);
  ASSERT_FALSE(Call(channel_, QuantizeOnes(1).SerializeAsString()).status.ok());
  EXPECT_TRUE(Reaches(
      "quantd_errors_total{method=\"Quantize\",code=\"UNAVAILABLE\",reason="
      "\"NO_DEVICE\"}",
      1));
  EXPECT_TRUE(Reaches(
      "quantd_device_state{device=\"fake:0\",state=\"quarantined\"}", 1));
  const Page page = Read();
  EXPECT_EQ(page["quantd_serving"], 0);
  EXPECT_EQ(
      page["quantd_device_faults_total{device=\"fake:0\",fault=\"hang\"}"], 0);
  EXPECT_GE(
      page["quantd_device_faults_total{device=\"fake:0\",fault=\"error\"}"], 1);
  EXPECT_EQ(page["quantd_device_self_tests_total{device=\"fake:0\",result="
                 "\"passed\"}"],
            1);
  EXPECT_GE(page["quantd_device_self_tests_total{device=\"fake:0\",result="
                 "\"failed\"}"],
            1);
  EXPECT_EQ(page["quantd_device_state{device=\"fake:0\",state=\"healthy\"}"],
            0);
}

TEST_F(MetricsTest, ReadyzFailsDuringTheDrain) {
  StartFake();
  EXPECT_THAT(Fetch("/readyz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(Read()["quantd_serving"], 1);
  std::thread drain([&] { server_->Drain(absl::Milliseconds(300)); });
  EXPECT_TRUE(Eventually(
      [&] { return Fetch("/readyz").starts_with("HTTP/1.1 503 "); }));
  EXPECT_THAT(Fetch("/healthz"), EndsWith("alive\n"));
  EXPECT_EQ(Read()["quantd_serving"], 0);
  EXPECT_THAT(Fetch("/"), StartsWith("HTTP/1.1 404 "));
  drain.join();
  EXPECT_THAT(Fetch("/healthz"), EndsWith("alive\n"));
}

TEST_F(MetricsTest, ReportsAnUnavailableAddress) {
  StartFake();
  ServerOptions second = options_;
  second.metrics_address = server_->metrics_address();
  second.devices = {"cpu:0"};
  const auto taken = Server::Start(second);
  EXPECT_TRUE(absl::IsUnavailable(taken.status())) << taken.status();
  EXPECT_THAT(std::string(taken.status().message()),
              HasSubstr("--metrics-address"));
  second.metrics_address = "9151";
  const auto wrong = Server::Start(second);
  EXPECT_TRUE(absl::IsInvalidArgument(wrong.status())) << wrong.status();
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("HOST:PORT"));
}

TEST(HistogramTest, CountsADurationInItsBucket) {
  Histogram histogram;
  for (const int64_t ns : {0, 10'000, 10'001}) histogram.Observe(ns);
  histogram.Observe(int64_t{3600} * 1'000'000'000);
  const Histogram::Snapshot snapshot = histogram.Read();
  EXPECT_EQ(snapshot.buckets.front(), 2u);
  EXPECT_EQ(snapshot.buckets[1], 1u);
  EXPECT_EQ(snapshot.buckets.back(), 1u);
  EXPECT_EQ(snapshot.count, 4u);
  EXPECT_EQ(snapshot.sum_ns, uint64_t{3600} * 1'000'000'000 + 20'001);
}

}  // namespace
}  // namespace quantd
