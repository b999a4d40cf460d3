#include "client/quantctl/bench/bench.h"

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/files/file.h"
#include "client/quantctl/bench/findings.h"
#include "client/quantctl/bench/measure.h"
#include "client/quantctl/bench/rate_plot.h"
#include "client/quantctl/flags.h"
#include "client/quantctl/server_choice.h"
#include "client/quantctl/signals.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

using Json = nlohmann::ordered_json;

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

// What the machine has for programs now; 0: it does not say.
uint64_t AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  uint64_t kibibytes = 0;
  while (file >> word) {
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

// Leaves out what would not fit, and says so.
void LeaveOut(std::vector<Task>* tasks) {
  const uint64_t room = AvailableMemory();
  if (room == 0) return;
  uint64_t told = 0;
  std::erase_if(*tasks, [&](const Task& task) {
    // The server, the echo and others have the rest.
    if (task.needs() <= room - room / 5) return false;
    if (std::exchange(told, task.bytes()) != task.bytes()) {
      fmt::print(stderr,
                 "quantctl: {} is left out: it takes {} here, and {} is free\n",
                 BytesText(task.bytes()), BytesText(task.needs()),
                 BytesText(room));
    }
    return true;
  });
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
  auto tasks = TasksOf(o, b);
  if (!tasks.ok()) return Fail(o, kUsage, tasks.status());
  LeaveOut(&*tasks);
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
  for (const Task& task : *tasks) {
    failure = Measure(setup, task, &cells);
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
  sub->add_option("--amax", b->amaxes,
                  "Whether the amax is in the request: given, computed, or "
                  "both in turn (default: as --rowwise-amax says)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"given", "computed"}))
      ->type_name("WORD,...");
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
         "again for each of three arrangements of an echo")
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
                      "say what part of it the server reaches, in the best of "
                      "some 25 arrangements: self, started here, or where a "
                      "quantctl echo-server is")
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
