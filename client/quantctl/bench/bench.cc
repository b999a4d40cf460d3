#include "client/quantctl/bench/bench.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "client/quantctl/bench/load.h"
#include "client/quantctl/flags.h"
#include "client/quantctl/signals.h"
#include "client/quantctl/tensor_math.h"
#include "fmt/format.h"
#include "quantd/local.h"

namespace quantd::quantctl {
namespace {

constexpr uint64_t kRowBytes = 2048;  // 1024 columns of bf16
constexpr std::pair<const char*, double> kQuantiles[] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"max", 1}};

struct BenchOptions {
  std::string method = "quantize";
  std::vector<uint64_t> sizes = {4 << 10, 1 << 20, 64 << 20};
  std::vector<int> callers = {1};
  std::vector<double> rates = {0};
  double seconds = 5;
  uint64_t calls = 100'000;
  int connections = 2;
  uint64_t band_bytes = 0;
  bool no_check = false;
};

// A row of the table.
struct Cell {
  uint64_t bytes = 0;        // size of the bf16 tensor
  uint64_t reply_bytes = 0;  // size of the reply's payload
  Load load;
  Outcome outcome;

  double calls_per_s() const {
    return static_cast<double>(outcome.good) / outcome.seconds;
  }
  double gb_per_s() const {
    return calls_per_s() * static_cast<double>(bytes) / 1e9;
  }
};

void PrintCells(const std::vector<Cell>& cells) {
  std::vector<std::vector<std::string>> rows = {
      {"size", "callers", "rate", "calls/s", "GB/s", "p50 ms", "p90 ms",
       "p99 ms", "max ms", "calls", "refused", "failed", "unsent"}};
  for (const Cell& c : cells) {
    const Outcome& x = c.outcome;
    rows.push_back({BytesText(c.bytes), fmt::to_string(c.load.callers),
                    c.load.rate > 0 ? fmt::format("{:g}", c.load.rate) : "-",
                    fmt::format("{:.1f}", c.calls_per_s()),
                    fmt::format("{:.3f}", c.gb_per_s())});
    for (const auto& [name, q] : kQuantiles) {
      rows.back().push_back(fmt::format("{:.3f}", 1e-6 * x.Quantile(q)));
    }
    for (const uint64_t n : {x.good, x.refused, x.failed, x.unsent}) {
      rows.back().push_back(fmt::to_string(n));
    }
  }
  PrintColumns(rows);
  for (const Cell& c : cells) {
    for (const auto& [code, count] : c.outcome.errors) {
      fmt::print("{}, {} callers: {} {}\n", BytesText(c.bytes), c.load.callers,
                 count, absl::StatusCodeToString(code));
    }
  }
}

Json JsonOf(const Cell& c) {
  const Outcome& x = c.outcome;
  Json errors = Json::object();
  for (const auto& [code, count] : x.errors) {
    errors[absl::StatusCodeToString(code)] = count;
  }
  Json latency;
  for (const auto& [name, q] : kQuantiles) latency[name] = x.Quantile(q);
  return {{"bytes", c.bytes},
          {"reply_bytes", c.reply_bytes},
          {"callers", c.load.callers},
          {"rate", c.load.rate > 0 ? Json(c.load.rate) : Json(nullptr)},
          {"seconds", x.seconds},
          {"calls", x.good},
          {"refused", x.refused},
          {"failed", x.failed},
          {"errors", std::move(errors)},
          {"unsent", x.unsent},
          {"calls_per_s", c.calls_per_s()},
          {"gb_per_s", c.gb_per_s()},
          {"latency_ns", std::move(latency)}};
}

void PrintAsJson(const Options& o, const BenchOptions& b,
                 const std::vector<Cell>& cells, bool interrupted, int code) {
  Json all = Json::array();
  for (const Cell& c : cells) all.push_back(JsonOf(c));
  const Json out = {{"command", "bench"},
                    {"version", QUANTD_VERSION},
                    {"server", o.server},
                    {"method", b.method},
                    {"format", Name(o.quantize.format)},
                    {"connections", b.connections},
                    {"band_bytes", b.band_bytes},
                    {"checked", !b.no_check},
                    {"interrupted", interrupted},
                    {"cells", std::move(all)},
                    {"exit_code", code}};
  PrintJson(out);
}

// Fills the input with normally distributed values by repeating a sample of 2
// MiB. This is enough, because results of blocks do not depend on other blocks.
void Fill(absl::Span<std::byte> input) {
  const size_t most = std::min<size_t>(input.size(), 2 << 20);
  const auto sample = client::GaussianSample(most / 2, 20260101);
  for (size_t at = 0; at < input.size(); at += most) {
    std::memcpy(input.data() + at, sample.data(),
                std::min(most, input.size() - at));
  }
}

// The call to measure, to a server or to the devices of this process.
using Ask = std::function<absl::StatusOr<Result>(Client&, const CallOptions&)>;

TensorDesc TensorOf(uint64_t bytes) {
  return {DType::kBF16, {static_cast<int64_t>(bytes / kRowBytes), 1024}};
}

absl::StatusOr<Ask> AskOf(Client& client, const std::string& method,
                          absl::Span<const std::byte> input, const Options& o) {
  const TensorDesc tensor = TensorOf(input.size());
  const QuantizeOptions& how = o.quantize;
  if (method == "amax") {
    RhtAmaxOptions amax;
    amax.rowwise = !how.rht.rowwise;
    amax.rowwise_rht = how.rht.rowwise;
    amax.rht_dimension = how.rht.dimension;
    amax.sign_mask = how.rht.sign_mask;
    amax.non_finite = how.non_finite;
    return [=](Client& c, const CallOptions& call) {
      return c.RhtAmax(tensor, input, amax, call);
    };
  }
  const Ask quantize = [=](Client& c, const CallOptions& call) {
    return c.Quantize(tensor, input, how, call);
  };
  if (method == "quantize") return quantize;
  auto made = quantize(client, CallOf(o));
  if (!made.ok()) return made.status();
  auto codes = QuantizedTensor::FromResult(tensor, how, *std::move(made));
  if (!codes.ok()) return codes.status();
  return [q = *std::move(codes)](Client& c, const CallOptions& call) {
    return q.Dequantize(c, DType::kUnspecified, call);
  };
}

// Computes the call on this machine's CPU. INTERNAL if the server's result
// differs.
absl::Status Compare(const Ask& ask, const Result& there, const Options& o) {
  const auto cpu = CreateClient("local:cpu");
  if (!cpu.ok()) return cpu.status();
  const auto here = ask(**cpu, CallOf(o));
  if (!here.ok()) return here.status();
  for (const TensorSpec& part : here->parts()) {
    if (there.bytes(part.kind) == here->bytes(part.kind)) continue;
    return absl::InternalError(fmt::format(
        "the server's {} differs from the result of this machine's CPU, so "
        "nothing is measured; --no-check skips this comparison",
        Name(part.kind)));
  }
  return {};
}

// Converts RESOURCE_EXHAUSTED, which here means that this machine lacks memory,
// to INTERNAL, so that it is not reported as a busy server.
absl::Status NoRoom(const absl::Status& s) {
  return absl::IsResourceExhausted(s) ? absl::InternalError(s.message()) : s;
}

// Measures all loads of one size and appends them to `cells`. Returns an error
// if further measurements are pointless.
absl::Status Measure(Client& client, const Options& o, const BenchOptions& b,
                     uint64_t bytes, const std::atomic<int>& stop,
                     std::vector<Cell>* cells) {
  const auto input = client.AllocateHost(bytes);
  if (!input.ok()) return NoRoom(input.status());
  Fill(input->bytes());
  const auto ask = AskOf(client, b.method, input->bytes(), o);
  if (!ask.ok()) return ask.status();
  // The first call warms up, and provides the result to check and its parts.
  const auto first = (*ask)(client, CallOf(o));
  if (!first.ok()) return first.status();
  if (o.transport && first->transport() != *o.transport) {
    return OtherWay(*o.transport, std::string(Name(first->transport())));
  }
  if (!b.no_check) {
    if (auto s = Compare(*ask, *first, o); !s.ok()) return s;
  }
  // Each caller has memory for its results, which every call reuses. It is
  // rounded up to whole cache lines.
  size_t reply_bytes = 0;
  for (const TensorSpec& part : first->parts()) reply_bytes += part.size;
  const size_t room = (reply_bytes / 64 + first->parts().size() + 1) * 64;
  std::vector<CallOptions> calls(*std::ranges::max_element(b.callers),
                                 CallOf(o));
  const auto answers = client.AllocateHost(calls.size() * room);
  if (!answers.ok()) return NoRoom(answers.status());
  for (size_t i = 0; i < calls.size(); ++i) {
    size_t at = i * room;
    for (const TensorSpec& part : first->parts()) {
      calls[i].into.push_back(
          {part.kind, answers->bytes().subspan(at, part.size)});
      at += (part.size + 63) / 64 * 64;
    }
  }
  for (const int callers : b.callers) {
    for (const double rate : b.rates) {
      if (stop != 0) return {};
      const Load load = {callers, rate, b.seconds, b.calls};
      const auto call = [&](int i) {
        return (*ask)(client, calls[i]).status();
      };
      cells->push_back({bytes, reply_bytes, load, RunLoad(load, call, stop)});
      // Ends if there is no server. Other errors are results of the
      // measurement.
      const absl::Status& error = cells->back().outcome.error;
      if (absl::IsUnavailable(error)) return error;
    }
  }
  return {};
}

int RunBench(const Options& o, const BenchOptions& b) {
  for (const uint64_t bytes : b.sizes) {
    auto legal = MakeQuantizePlan(TensorOf(bytes), o.quantize).status();
    if (bytes == 0 || bytes % kRowBytes != 0) {
      legal = absl::InvalidArgumentError(fmt::format(
          "--sizes: {} bytes are not a multiple of a row, which has {} bytes",
          bytes, kRowBytes));
    }
    if (!legal.ok()) return Fail(o, kUsage, legal);
  }
  ClientOptions how;
  how.channels = b.connections;
  how.deadline = CallOf(o).deadline;
  how.retry.max_attempts = 1;  // refusals are counted instead of retried
  how.credentials = o.credentials;
  how.memory_socket = o.memory_socket;
  how.band_bytes = b.band_bytes;
  const auto client = CreateClient(o.server, how);
  if (!client.ok()) return FailToConnect(o, client.status());
  static std::atomic<int> stop = 0;
  StopOnSignal(&stop);
  std::vector<Cell> cells;
  absl::Status error;
  for (const uint64_t bytes : b.sizes) {
    if (stop == 0 && error.ok()) {
      error = Measure(**client, o, b, bytes, stop, &cells);
    }
  }
  int code = kOk;
  for (const Cell& c : cells) code = c.outcome.failed > 0 ? kPartly : code;
  if (stop != 0) code = 128 + stop;
  if (!error.ok()) {
    code = absl::IsInternal(error) ? kInternal : CodeOf(error);
    if (cells.empty()) return Fail(o, code, error);
    Explain(o, code, error);
  }
  o.json ? PrintAsJson(o, b, cells, stop != 0, code) : PrintCells(cells);
  return code;
}

}  // namespace

void AddBench(CLI::App* app, Options* o,
              std::function<int(const Options&)>* run) {
  const auto b = std::make_shared<BenchOptions>();
  CLI::App* sub = app->add_subcommand(
      "bench", "Measure the throughput and latency of a server");
  sub->callback([run, b] {
    *run = [b](const Options& options) { return RunBench(options, *b); };
  });
  AddJson(sub, o);
  AddServer(sub, o);
  Add(sub, "--method", &b->method, "METHOD",
      "Method to call: quantize, dequantize or amax")
      ->check(CLI::IsMember({"quantize", "dequantize", "amax"}))
      ->capture_default_str();
  AddList(sub, "--sizes", &b->sizes, "SIZE,...",
          "Sizes of the bf16 tensors, which have 1024 columns; GB/s are "
          "computed from them (default 4KiB,1MiB,64MiB). The first call of "
          "each size is not measured")
      ->transform(CLI::AsSizeValue(false));
  Add(sub, "--band-bytes", &b->band_bytes, "SIZE",
      "Split each call into calls for bands of about this many bytes, over all "
      "connections; 0 disables this")
      ->transform(CLI::AsSizeValue(false));
  AddList(sub, "--callers", &b->callers, "N,...",
          "Number of concurrent calls; several values are measured one after "
          "the other (default 1)")
      ->check(CLI::Range(1, 1024));
  AddList(sub, "--rate", &b->rates, "CALLS,...",
          "Calls per second, with latencies measured from the time at which a "
          "call is due (default: each caller makes one call after the other)")
      ->check(CLI::Range(0.001, 1e5));
  sub->add_option("--seconds", b->seconds,
                  "Seconds during which calls start, for each row of the table")
      ->check(CLI::Range(0.01, 600.0))
      ->capture_default_str();
  sub->add_option("--calls", b->calls, "Maximum number of calls for each row")
      ->check(CLI::Range(uint64_t{1}, uint64_t{10'000'000}))
      ->capture_default_str();
  sub->add_option("--connections", b->connections, "Connections to each server")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  sub->add_flag("--no-check", b->no_check,
                "Do not compare the first result with one computed on this "
                "machine's CPU");
  AddQuantize(sub, o);
}

}  // namespace quantd::quantctl
