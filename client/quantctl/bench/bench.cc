#include "client/quantctl/bench/bench.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/quantctl/bench/load.h"
#include "client/quantctl/flags.h"
#include "client/quantctl/server_choice.h"
#include "client/quantctl/signals.h"
#include "client/quantctl/tensor_math.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kRowBytes = 2048;  // 1024 columns of bf16

struct BenchOptions {
  std::vector<uint64_t> sizes = {4 << 10, 1 << 20, 64 << 20};
  std::vector<int> callers = {1};
  std::vector<double> rates;
  double seconds = 5;
  uint64_t calls = 100'000;
  int connections = 2;
  bool no_check = false;
};

struct Cell {
  uint64_t bytes = 0;
  Load load;
  Outcome outcome;

  double calls_per_s() const {
    return static_cast<double>(outcome.good) / outcome.seconds;
  }
  double gb_per_s() const {
    return calls_per_s() * static_cast<double>(bytes) / 1e9;
  }
};

constexpr std::pair<const char*, double> kQuantiles[] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}};

// Normally distributed values; a sample of 2 MiB, again and again: what is
// computed of a block does not depend on whether another is like it.
void Fill(absl::Span<std::byte> input) {
  const auto sample = client::GaussianSample(
      std::min<size_t>(input.size() / 2, 1 << 20), 20260101);
  for (size_t at = 0; at < input.size();) {
    const size_t n = std::min(sample.size() * 2, input.size() - at);
    std::memcpy(input.data() + at, sample.data(), n);
    at += n;
  }
}

// INTERNAL where a part of the two is not the same.
absl::Status Compare(const Result& there, const Result& here) {
  for (const TensorSpec& part : here.parts()) {
    const auto a = there.bytes(part.kind);
    const auto b = here.bytes(part.kind);
    if (!std::equal(a.begin(), a.end(), b.begin(), b.end())) {
      return absl::InternalError(fmt::format(
          "the server's {} is not what is computed here: what it takes for "
          "such an answer is not worth knowing (--no-check measures all the "
          "same)",
          Name(part.kind)));
    }
  }
  return {};
}

std::string Milliseconds(uint64_t nanoseconds) {
  return fmt::format("{:.3f}", static_cast<double>(nanoseconds) / 1e6);
}

void PrintCells(const std::vector<Cell>& cells) {
  std::vector<std::vector<std::string>> rows = {
      {"size", "callers", "rate", "calls/s", "GB/s"}};
  for (const auto& [name, q] : kQuantiles) {
    rows[0].push_back(fmt::format("{} ms", name));
  }
  for (const char* name : {"max ms", "calls", "refused", "failed", "unsent"}) {
    rows[0].emplace_back(name);
  }
  for (const Cell& c : cells) {
    const Outcome& x = c.outcome;
    std::vector<std::string> row = {
        BytesText(c.bytes), fmt::to_string(c.load.callers),
        c.load.rate > 0 ? fmt::format("{:g}", c.load.rate) : "-",
        fmt::format("{:.1f}", c.calls_per_s()),
        fmt::format("{:.3f}", c.gb_per_s())};
    for (const auto& [name, q] : kQuantiles) {
      row.push_back(Milliseconds(x.nanoseconds.Quantile(q)));
    }
    row.push_back(Milliseconds(x.nanoseconds.max()));
    for (const uint64_t n : {x.good, x.refused, x.failed, x.unsent}) {
      row.push_back(fmt::to_string(n));
    }
    rows.push_back(std::move(row));
  }
  PrintColumns(rows);
}

void PrintJson(const Options& o, const BenchOptions& b,
               const std::vector<Cell>& cells, bool interrupted, int code) {
  Json out = {
      {"command", "bench"},           {"version", QUANTD_VERSION},
      {"server", o.server},           {"format", Name(o.quantize.format)},
      {"connections", b.connections}, {"checked", !b.no_check},
      {"interrupted", interrupted},   {"cells", Json::array()}};
  for (const Cell& c : cells) {
    const Outcome& x = c.outcome;
    Json latency;
    for (const auto& [name, q] : kQuantiles) {
      latency[name] = x.nanoseconds.Quantile(q);
    }
    latency["max"] = x.nanoseconds.max();
    out["cells"].push_back(
        {{"bytes", c.bytes},
         {"callers", c.load.callers},
         {"rate", c.load.rate > 0 ? Json(c.load.rate) : Json(nullptr)},
         {"seconds", x.seconds},
         {"calls", x.good},
         {"refused", x.refused},
         {"failed", x.failed},
         {"unsent", x.unsent},
         {"calls_per_s", c.calls_per_s()},
         {"input_gb_per_s", c.gb_per_s()},
         {"latency_ns", std::move(latency)}});
  }
  out["exit_code"] = code;
  fmt::print("{}\n", out.dump(2, ' ', false, Json::error_handler_t::replace));
}

std::vector<Load> LoadsOf(const BenchOptions& b) {
  std::vector<Load> loads;
  for (const int callers : b.callers) {
    for (const double rate :
         b.rates.empty() ? std::vector<double>{0} : b.rates) {
      loads.push_back({callers, rate, b.seconds, b.calls});
    }
  }
  return loads;
}

// The first call of a size: it warms up, and tells whether bytes are right.
absl::Status FirstCall(Client& client, const TensorDesc& tensor,
                       absl::Span<const std::byte> input, const Options& o,
                       bool check) {
  const auto there = client.Quantize(tensor, input, o.quantize, CallOf(o));
  if (!there.ok()) return there.status();
  if (o.transport && there->transport() != *o.transport) {
    return OtherWay(*o.transport, std::string(Name(there->transport())));
  }
  if (!check) return {};
  const auto cpu = Client::Create("local:cpu");
  if (!cpu.ok()) return cpu.status();
  const auto here = (*cpu)->Quantize(tensor, input, o.quantize, CallOf(o));
  return here.ok() ? Compare(*there, *here) : here.status();
}

int RunBench(const Options& o, const BenchOptions& b) {
  ClientOptions how;
  how.channels = b.connections;
  how.deadline = CallOf(o).deadline;
  how.retry.max_attempts = 1;  // a refusal is counted, not waited out
  how.credentials = o.credentials;
  how.memory_socket = o.memory_socket;
  const auto client = Client::Create(o.server, how);
  if (!client.ok()) return FailToConnect(o, client.status());
  std::vector<TensorDesc> tensors;
  for (const uint64_t bytes : b.sizes) {
    if (bytes == 0 || bytes % kRowBytes != 0) {
      return Fail(
          o, kUsage,
          absl::InvalidArgumentError(fmt::format(
              "--sizes: {} bytes are no whole rows of {}", bytes, kRowBytes)));
    }
    tensors.push_back(
        {DType::kBF16, {static_cast<int64_t>(bytes / kRowBytes), 1024}});
    const auto plan = MakeQuantizePlan(tensors.back(), o.quantize);
    if (!plan.ok()) return Fail(o, kUsage, plan.status());
  }

  static std::atomic<int> stop = 0;
  StopOnSignal(&stop);
  const bool terminal = isatty(STDERR_FILENO) == 1;
  std::vector<Cell> cells;
  absl::Status error;
  for (const TensorDesc& tensor : tensors) {
    const uint64_t bytes = static_cast<uint64_t>(tensor.shape[0]) * kRowBytes;
    auto memory = (*client)->AllocateHost(bytes);
    if (!memory.ok()) {
      error = memory.status();
      break;
    }
    Fill(memory->bytes());
    error = FirstCall(**client, tensor, memory->bytes(), o, !b.no_check);
    for (const Load& load : LoadsOf(b)) {
      if (stop != 0 || !error.ok()) break;
      if (terminal) {
        fmt::print(stderr, "\r\x1b[K{}, {} callers", BytesText(bytes),
                   load.callers);
      }
      const auto call = [&] {
        return (*client)
            ->Quantize(tensor, memory->bytes(), o.quantize, CallOf(o))
            .status();
      };
      cells.push_back({bytes, load, RunLoad(load, call, stop)});
      // Others go on: a server that is too busy for some is a finding.
      if (absl::IsUnavailable(cells.back().outcome.error)) {
        error = cells.back().outcome.error;
      }
    }
    if (stop != 0 || !error.ok()) break;
  }
  if (terminal) fmt::print(stderr, "\r\x1b[K");
  int code = stop != 0 ? 128 + stop : kOk;
  if (!error.ok()) {
    code = absl::IsInternal(error) ? kInternal : CodeOf(error);
    if (cells.empty()) return Fail(o, code, error);
    Explain(o, code, error);
  }
  o.json ? PrintJson(o, b, cells, stop != 0, code) : PrintCells(cells);
  return code;
}

}  // namespace

void AddBench(CLI::App* app, Options* o,
              std::function<int(const Options&)>* run) {
  const auto b = std::make_shared<BenchOptions>();
  CLI::App* sub = app->add_subcommand(
      "bench", "Measure how many tensors a server quantizes, and how fast");
  sub->callback([run, b] {
    *run = [b](const Options& options) { return RunBench(options, *b); };
  });
  AddJson(sub, o);
  AddServer(sub, o);
  sub->add_option("--sizes", b->sizes,
                  "Of bf16 tensors with 1024 columns (default 4KiB,1MiB,64MiB)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(CLI::AsSizeValue(true))
      ->type_name("SIZE,...");
  sub->add_option("--callers", b->callers,
                  "Calls at a time; several: one after the other (default 1)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1024))
      ->type_name("N,...");
  sub->add_option("--rate", b->rates,
                  "Calls a second that are due, and whose latency counts from "
                  "when they were (default: each caller's next call follows "
                  "its last)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(0.001, 1e5))
      ->type_name("CALLS,...");
  sub->add_option("--seconds", b->seconds,
                  "Time in which the calls of a row "
                  "of the table start")
      ->check(CLI::Range(0.01, 600.0))
      ->capture_default_str();
  sub->add_option("--calls", b->calls, "At most so many of them")
      ->check(CLI::Range(uint64_t{1}, uint64_t{100'000'000}))
      ->capture_default_str();
  sub->add_option("--connections", b->connections, "To each server")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  sub->add_flag("--no-check", b->no_check,
                "Do not compare the first answer with what is computed here");
  AddQuantize(sub, o);
}

}  // namespace quantd::quantctl
