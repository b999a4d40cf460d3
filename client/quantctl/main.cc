// quantctl: quantizes tensor files and models with a quantd server, or in its
// own process.

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "client/quantctl/bench/bench.h"
#include "client/quantctl/commands.h"
#include "client/quantctl/flags.h"
#include "client/quantctl/models/models.h"
#include "client/quantctl/signals.h"
#include "client/quantctl/terminal/terminal.h"
#include "fmt/format.h"
#include "kernels/plan/profile/profile.h"
#include "proto/net/strict_numbers.h"
#include "quantd/allocator.h"

namespace quantd::quantctl {
namespace {

// The text after the list of commands on the first page of help.
std::string Notes() {
  const size_t width = WidthOf(stdout);
  std::string text =
      "Where the work is done:\n  " +
      Wrapped(
          "On the server that --server or QUANTD_SERVER names, else on a "
          "server at 127.0.0.1:50151, else in this process on its GPUs or CPU "
          "(--server local). The resulting bytes are the same.",
          2, width) +
      "\n\n" +
      Wrapped(
          "Sizes are written like 4096, 64KiB, 512MB or 2GiB; KB and KiB both "
          "mean 1024 bytes.",
          0, width) +
      "\n\nExit codes:\n";
  for (const ExitMeaning& e : kExitCodes) {
    text += fmt::format("  {}  {}\n", static_cast<int>(e.code),
                        Wrapped(e.meaning, 5, width));
  }
  return text + "\n'quantctl help COMMAND' shows options and examples.";
}

struct Page {
  const char* command;
  const char* group;  // heading on the first page of help
  const char* examples;
};
constexpr char kTensors[] = "Tensors";
constexpr char kModels[] = "Whole models";
constexpr char kServers[] = "Servers";
constexpr Page kPages[] = {
    {"info", kServers, "  quantctl info --server gpu-host:50151"},
    {"quantize", kTensors,
     "  quantctl quantize w.safetensors -o w.nvfp4.safetensors\n"
     "  quantctl quantize g.npy -o g.safetensors --usage both \\\n"
     "    --rht columnwise --rounding stochastic"},
    {"dequantize", kTensors,
     "  quantctl dequantize w.nvfp4.safetensors -o w.safetensors\n"
     "  quantctl dequantize g.safetensors --tensor g -o g.npy"},
    {"amax", kTensors, "  quantctl amax w.safetensors --domain row --json"},
    {"roundtrip", kTensors,
     "  quantctl roundtrip w.safetensors --format mxfp8\n"
     "  quantctl roundtrip g.npy --rht columnwise"},
    {"plan", kTensors, "  quantctl plan --shape 4096,4096 --format mxfp8"},
    {"convert", kModels,
     "  quantctl convert Llama Llama-NVFP4 --dry-run\n"
     "  quantctl convert Llama Llama-NVFP4 --format nvfp4\n"
     "  quantctl convert Llama Llama-6G --format auto \\\n"
     "    --target 6GiB\n"
     "  quantctl convert Llama-NVFP4 plain --dialect none"},
    {"inspect", kModels, "  quantctl inspect Llama-NVFP4"},
    {"lint", kModels, "  quantctl lint Llama-NVFP4 --original Llama"},
    {"repair", kModels, "  quantctl repair Llama-NVFP4 Llama-mended"},
    {"verify", kModels, "  quantctl verify Llama-NVFP4 --original Llama"},
    {"compare", kModels, "  quantctl compare Llama Llama-NVFP4 --report DIR"},
    {"bench", kServers, "  quantctl bench --sizes 1MiB,64MiB --callers 1,4"},
    {"sample", kTensors, "  quantctl sample -o sample.safetensors"},
};

int Main(int argc, char** argv) {
  CLI::App app("Quantizes tensors and models, with or without a quantd server",
               "quantctl");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", "quantctl " QUANTD_VERSION);
  app.footer(Notes);
  Options o;
  o.quantize.format = Format::kNvfp4;
  std::function<int(const Options&)> run;
  const auto command = [&](const char* name, const char* help,
                           int (*function)(const Options&)) {
    CLI::App* sub = app.add_subcommand(name, help);
    sub->callback([&run, function] { run = function; });
    AddJson(sub, &o);
    return sub;
  };

  CLI::App* quantize = command(
      "quantize",
      "Quantize the tensors of a file and write them to a .safetensors file",
      RunQuantize);
  AddServer(quantize, &o);
  AddInput(quantize, &o, "A .npy or .safetensors file");
  AddOutput(quantize, &o,
            "The .safetensors file to write, or - for standard output");
  AddQuantize(quantize, &o);

  CLI::App* dequantize = command(
      "dequantize", "Decode a file that 'quantize' wrote", RunDequantize);
  AddServer(dequantize, &o);
  AddInput(dequantize, &o, "A .safetensors file of quantized tensors");
  AddOutput(dequantize, &o,
            "The .npy file (for one tensor) or .safetensors file to write, or "
            "- for .safetensors on standard output");
  AddDType(dequantize, &o,
           "Type to write (default: the type that was quantized)");
  Named(
      dequantize, "--usage", "USAGE",
      "Copy to decode (default: rowwise if the file has it)",
      "rowwise or columnwise",
      [](const std::string& t) {
        const auto usage = ParseUsage(t);
        const bool one =
            usage == Usage::kRowwise || usage == Usage::kColumnwise;
        return one ? usage : std::nullopt;
      },
      &o.decode_usage);
  Named(
      dequantize, "--profile", "LIBRARY",
      "Library by whose rules to decode (default: the one that the file names)",
      ProfileNames(), ParseProfile, &o.decode_profile);

  CLI::App* amax = command(
      "amax", "Show the largest magnitudes of tensors, before and after RHT",
      RunAmax);
  AddServer(amax, &o);
  AddInput(amax, &o, "A .npy or .safetensors file");
  AddFlatten(amax, &o);
  AddRotation(amax, &o);
  Named(
      amax, "--domain", "DOMAIN",
      "Scope of one amax: the tensor or a row of the operand (default tensor)",
      "tensor or row", ParseAmaxDomain, &o.domain);
  AddSplits(amax, &o);

  CLI::App* roundtrip = command(
      "roundtrip", "Quantize, decode and report the signal-to-noise ratio",
      RunRoundtrip);
  AddServer(roundtrip, &o);
  AddInput(roundtrip, &o, "A .npy or .safetensors file");
  AddQuantize(roundtrip, &o);
  AddDType(roundtrip, &o, "Type to decode to (default f32)");

  CLI::App* plan = command("plan",
                           "Show the parts and the memory that quantizing "
                           "would need; needs no server",
                           RunPlan);
  Add(plan, "FILE", &o.input, "FILE",
      "A .npy or .safetensors file with the tensors to plan");
  Add(plan, "--tensor", &o.tensors, "NAME",
      "Plan only this tensor of the file (may be repeated)")
      ->allow_extra_args(false);
  AddList(plan, "--shape", &o.shape, "DIM,...",
          "Plan a tensor of this shape instead of a file");
  AddDType(plan, &o, "Type of the tensor (default bf16)");
  plan->add_flag("--kernels", o.kernels,
                 "Also show the kernels on a GPU and on the CPU. Without FILE "
                 "and --shape: show a table for all formats, copies and types");
  AddQuantize(plan, &o);

  AddModelCommands(&app, &o, &run);
  CLI::App* info = command(
      "info", "Show the version, limits, devices and formats of a server",
      RunInfo);
  AddServer(info, &o);

  AddBench(&app, &o, &run);

  CLI::App* sample = command("sample",
                             "Write a file with a Gaussian and an "
                             "outlier-heavy tensor; needs no server",
                             RunSample);
  AddOutput(sample, &o,
            "The .safetensors file to write, or - for standard output");
  sample->add_option("--rows", o.sample_rows, "Rows of each tensor")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  sample->add_option("--cols", o.sample_cols, "Columns of each tensor")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  sample->add_option("--seed", o.sample_seed, "Seed of both tensors")
      ->capture_default_str();

  for (const Page& page : kPages) {
    app.get_subcommand(page.command)
        ->group(page.group)
        ->footer(std::string("Examples:\n") + page.examples);
  }
  quantd::ReadNumbersStrictly(&app);
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.resize(std::min<size_t>(words.size(), 1));
    words.emplace_back("--help");
  }
  std::string wrong = Misspelt(app, words);
  if (wrong.empty()) {
    try {
      app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (const CLI::ParseError& e) {
      if (e.get_exit_code() == 0) return app.exit(e);
      wrong = e.what();
    }
  }
  if (wrong.empty() && app.get_subcommands().empty()) {
    wrong = "expected a command";
  }
  if (!wrong.empty()) {
    std::string about;
    for (const Page& page : kPages) {
      if (!words.empty() && words.front() == page.command) {
        about = " " + words.front();
      }
    }
    return Fail(o, kUsage,
                absl::InvalidArgumentError(
                    fmt::format("{}\n  See 'quantctl help{}'.", wrong, about)));
  }
  for (const auto settle : {Settle, SettleConnection}) {
    if (const auto s = settle(&o); !s.ok()) return Fail(o, kUsage, s);
  }
  // Commands that compute can run without a server. `info` and `bench` need
  // one.
  for (const CLI::App* sub : app.get_subcommands()) {
    if (sub == info || sub->get_name() == "bench") continue;
    const CLI::Option* server = sub->get_option_no_throw("--server");
    const CLI::Option* dry_run = sub->get_option_no_throw("--dry-run");
    const CLI::Option* target = sub->get_option_no_throw("--target");
    const bool measures = target != nullptr && *target;
    // Decoding to plain weights always runs in this process.
    const CLI::Option* dialect = sub->get_option_no_throw("--dialect");
    const bool back =
        dialect != nullptr && *dialect && dialect->as<std::string>() == "none";
    const bool computes =
        server != nullptr && !back && (measures || !(dry_run && *dry_run));
    if (computes && server->empty()) SettleServer(&o);
  }
  if (const auto s = CheckTransport(o); !s.ok()) return Fail(o, kUsage, s);
  return run(o);
}

}  // namespace
}  // namespace quantd::quantctl

int main(int argc, char** argv) {
  quantd::quantctl::RemoveDraftsOnSignals();
  quantd::TuneAllocatorForBulkTransfers();
  // Libraries may throw, for example if memory runs out.
  using namespace quantd::quantctl;
  try {
    const int code = Main(argc, argv);
    if (std::fflush(stdout) == 0 || code != kOk) return code;
    fmt::print(stderr, "quantctl: cannot write to standard output: {}\n",
               std::strerror(errno));
    return kCannotWrite;
  } catch (const std::system_error& e) {
    // fmt::print throws this.
    fmt::print(stderr, "quantctl: {}\n", e.what());
    return kCannotWrite;
  } catch (const std::exception& e) {
    fmt::print(stderr, "quantctl: internal error: {}\n", e.what());
    return kInternal;
  }
}
