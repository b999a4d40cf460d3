#include "client/quantctl/bench/bench.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/files/file.h"
#include "client/quantctl/bench/cell.h"
#include "client/quantctl/bench/echo_side.h"
#include "client/quantctl/bench/findings.h"
#include "client/quantctl/bench/rate_plot.h"
#include "client/quantctl/bench/rounds.h"
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
  uint64_t band_bytes = 0;
  std::string echo;  // empty: none
  int rounds = 5;    // with an echo
  std::string svg;   // empty: no picture
  bool no_check = false;
};

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

void PrintJson(const Options& o, const BenchOptions& b,
               const std::vector<Cell>& cells, bool interrupted, int code) {
  const Json out = {{"command", "bench"},
                    {"version", QUANTD_VERSION},
                    {"server", o.server},
                    {"format", Name(o.quantize.format)},
                    {"connections", b.connections},
                    {"band_bytes", b.band_bytes},
                    {"echo", b.echo.empty() ? Json(nullptr) : Json(b.echo)},
                    {"checked", !b.no_check},
                    {"interrupted", interrupted},
                    {"cells", JsonOf(cells)},
                    {"exit_code", code}};
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

// The first call of a size: it warms up, and tells whether bytes are right and
// how many come back.
absl::StatusOr<uint64_t> FirstCall(Client& client, const TensorDesc& tensor,
                                   absl::Span<const std::byte> input,
                                   const Options& o, bool check) {
  const auto there = client.Quantize(tensor, input, o.quantize, CallOf(o));
  if (!there.ok()) return there.status();
  if (o.transport && there->transport() != *o.transport) {
    return OtherWay(*o.transport, std::string(Name(there->transport())));
  }
  uint64_t bytes = 0;
  for (const TensorSpec& part : there->parts()) bytes += part.size;
  if (!check) return bytes;
  const auto cpu = Client::Create("local:cpu");
  if (!cpu.ok()) return cpu.status();
  const auto here = (*cpu)->Quantize(tensor, input, o.quantize, CallOf(o));
  if (!here.ok()) return here.status();
  if (const auto s = Compare(*there, *here); !s.ok()) return s;
  return bytes;
}

absl::StatusOr<std::vector<TensorDesc>> TensorsOf(const Options& o,
                                                  const BenchOptions& b) {
  std::vector<TensorDesc> tensors;
  for (const uint64_t bytes : b.sizes) {
    if (bytes == 0 || bytes % kRowBytes != 0) {
      return absl::InvalidArgumentError(fmt::format(
          "--sizes: {} bytes are no whole rows of {}", bytes, kRowBytes));
    }
    tensors.push_back(
        {DType::kBF16, {static_cast<int64_t>(bytes / kRowBytes), 1024}});
    const auto plan = MakeQuantizePlan(tensors.back(), o.quantize);
    if (!plan.ok()) return plan.status();
  }
  return tensors;
}

// What is measured, and with what.
struct Setup {
  const Options& options;
  const BenchOptions& bench;
  Client& client;
  EchoSide* echo;  // null: none
  const std::atomic<int>& stop;
};

struct Failure {
  absl::Status status;
  bool of_echo = false;
};

Cell MadeOf(const TensorDesc& tensor, uint64_t reply_bytes, const Load& load,
            std::vector<Contender> contenders) {
  const uint64_t bytes = static_cast<uint64_t>(tensor.shape[0]) * kRowBytes;
  const auto gb_per_s = [bytes](std::vector<double> rates) {
    for (double& rate : rates) rate *= static_cast<double>(bytes) / 1e9;
    return rates;
  };
  Cell cell{bytes,
            reply_bytes,
            load,
            std::move(contenders[0].outcome),
            gb_per_s(contenders[0].calls_per_s),
            {}};
  const auto pieces = EchoSide::PiecesFor(bytes, reply_bytes);
  for (size_t i = 1; i < contenders.size(); ++i) {
    cell.echoes.push_back({pieces[i - 1], gb_per_s(contenders[i].calls_per_s)});
  }
  return cell;
}

// All loads of one size.
Failure MeasureSize(const Setup& setup, const TensorDesc& tensor,
                    std::vector<Cell>* cells) {
  const auto& [o, b, client, echo, stop] = setup;
  const uint64_t bytes = static_cast<uint64_t>(tensor.shape[0]) * kRowBytes;
  const auto memory = client.AllocateHost(bytes);
  if (!memory.ok()) return {memory.status()};
  Fill(memory->bytes());
  const auto reply_bytes =
      FirstCall(client, tensor, memory->bytes(), o, !b.no_check);
  if (!reply_bytes.ok()) return {reply_bytes.status()};
  if (echo != nullptr) {
    const auto s = echo->FirstCall(memory->bytes(), *reply_bytes);
    if (!s.ok()) return {s, true};
  }
  for (const Load& load : LoadsOf(b)) {
    if (stop != 0) break;
    if (isatty(STDERR_FILENO) == 1) {
      fmt::print(stderr, "\r\x1b[K{}, {} callers", BytesText(bytes),
                 load.callers);
    }
    std::vector<Contender> contenders = {{[&] {
      return client.Quantize(tensor, memory->bytes(), o.quantize, CallOf(o))
          .status();
    }}};
    if (echo != nullptr) {
      for (Contender& c : echo->ContendersFor(memory->bytes(), *reply_bytes)) {
        contenders.push_back(std::move(c));
      }
    }
    const auto s =
        RunRounds(load, echo == nullptr ? 1 : b.rounds, &contenders, stop);
    if (!s.ok()) return {s, true};
    cells->push_back(MadeOf(tensor, *reply_bytes, load, std::move(contenders)));
    // Others go on: a server that is too busy for some is a finding.
    const absl::Status& error = cells->back().outcome.error;
    if (absl::IsUnavailable(error)) return {error};
  }
  return {};
}

// An echo's error says by itself what to do next.
void ExplainFailure(const Options& o, int code, const Failure& failure) {
  if (!failure.of_echo) return Explain(o, code, failure.status);
  fmt::print(stderr, "quantctl: {}\n", std::string(failure.status.message()));
}

absl::Status WritePlot(OutputFile* file, const Options& o,
                       const BenchOptions& b, const std::vector<Cell>& cells) {
  return file->CommitText(
      RatePlot(fmt::format("quantctl {} bench: {}, {} connection{}",
                           QUANTD_VERSION, Name(o.quantize.format),
                           b.connections, b.connections == 1 ? "" : "s"),
               cells));
}

int RunBench(const Options& o, const BenchOptions& b) {
  ClientOptions how;
  how.channels = b.connections;
  how.deadline = CallOf(o).deadline;
  how.retry.max_attempts = 1;  // a refusal is counted, not waited out
  how.credentials = o.credentials;
  how.memory_socket = o.memory_socket;
  how.band_bytes = b.band_bytes;
  const auto client = Client::Create(o.server, how);
  if (!client.ok()) return FailToConnect(o, client.status());
  const auto tensors = TensorsOf(o, b);
  if (!tensors.ok()) return Fail(o, kUsage, tensors.status());
  std::unique_ptr<EchoSide> echo;
  if (!b.echo.empty()) {
    auto made = EchoSide::Create(b.echo, o, b.connections);
    if (!made.ok()) {
      const bool usage = absl::IsInvalidArgument(made.status());
      return Fail(o, usage ? kUsage : kInternal, made.status());
    }
    echo = *std::move(made);
  }
  std::optional<OutputFile> svg;
  if (!b.svg.empty()) {
    auto file = OutputFile::Create(b.svg);
    if (!file.ok()) return Fail(o, kCannotWrite, file.status());
    svg = *std::move(file);
  }

  static std::atomic<int> stop = 0;
  StopOnSignal(&stop);
  const Setup setup = {o, b, **client, echo.get(), stop};
  std::vector<Cell> cells;
  Failure failure;
  for (const TensorDesc& tensor : *tensors) {
    failure = MeasureSize(setup, tensor, &cells);
    if (stop != 0 || !failure.status.ok()) break;
  }
  if (isatty(STDERR_FILENO) == 1) fmt::print(stderr, "\r\x1b[K");
  int code = stop != 0 ? 128 + stop : kOk;
  if (const absl::Status& error = failure.status; !error.ok()) {
    code = absl::IsInternal(error) ? kInternal : CodeOf(error);
    ExplainFailure(o, code, failure);
    if (cells.empty()) {
      if (o.json) PrintJsonError(error, code);
      return code;
    }
  }
  if (svg && !cells.empty()) {
    if (const auto s = WritePlot(&*svg, o, b, cells); !s.ok()) {
      code = kCannotWrite;
      Explain(o, code, s);
    }
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
  sub->add_option("--band-bytes", b->band_bytes,
                  "Cut each call into bands of about so many bytes, over all "
                  "connections; 0: one call")
      ->transform(CLI::AsSizeValue(true))
      ->type_name("SIZE");
  sub->add_option("--callers", b->callers,
                  "Calls at a time; several: one after the other (default 1)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1024))
      ->type_name("N,...");
  CLI::Option* const rate =
      sub->add_option(
             "--rate", b->rates,
             "Calls a second that are due, and whose latency counts from "
             "when they were (default: each caller's next call follows "
             "its last)")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->check(CLI::Range(0.001, 1e5))
          ->type_name("CALLS,...");
  sub->add_option(
         "--seconds", b->seconds,
         "Time in which the calls of a row of the table start; as much "
         "again for each arrangement of an echo")
      ->check(CLI::Range(0.01, 600.0))
      ->capture_default_str();
  sub->add_option("--calls", b->calls, "At most so many of them")
      ->check(CLI::Range(uint64_t{1}, uint64_t{100'000'000}))
      ->capture_default_str();
  sub->add_option("--connections", b->connections, "To each server")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  CLI::Option* const echo =
      sub->add_option("--echo", b->echo,
                      "Measure in turn a raw gRPC echo of the same bytes and "
                      "say what part of it the server reaches: self, started "
                      "here, or where a quantctl echo-server is")
          ->type_name("ADDRESS")
          ->excludes(rate);
  sub->add_option("--rounds", b->rounds,
                  "With --echo: into so many are the seconds of each divided, "
                  "and medians count")
      ->check(CLI::Range(1, 100))
      ->needs(echo)
      ->capture_default_str();
  sub->add_option("--svg", b->svg, "Draw GB/s by size there")
      ->type_name("FILE");
  sub->add_flag("--no-check", b->no_check,
                "Do not compare the first answer with what is computed here");
  AddQuantize(sub, o);
}

}  // namespace quantd::quantctl
