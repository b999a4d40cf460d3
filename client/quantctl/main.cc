// quantctl: quantizes tensor files through a quantd server, or by itself.

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <system_error>

#include "client/allocator.h"
#include "client/quantctl/bench/bench.h"
#include "client/quantctl/commands.h"
#include "client/quantctl/flags.h"
#include "client/quantctl/models/models.h"
#include "client/quantctl/server_choice.h"
#include "client/quantctl/signals.h"
#include "client/quantctl/usage.h"
#include "fmt/format.h"
#include "kernels/plan/profile/profile.h"
#include "proto/net/strict_numbers.h"

namespace quantd::quantctl {
namespace {

constexpr char kFooter[] =
    R"(Exit codes:
  0  done
  1  internal error
  2  wrong usage
  3  the input file cannot be read, is malformed, or holds nothing to work on
  4  no server there, or it was busy or silent until the deadline
  5  the server refused the request
  6  some tensors failed: the others are reported, and no file is written; some
     calls of bench failed, and not because the server was busy
  7  the output cannot be written
  8  lint or verify found something (to lint, files that cannot be read are a
     finding, and so is a model without a quantized weight), repair left
     something, or compare found nothing to compare or a weight that is too far
     off (--fail-below)

Which way bytes go (--json says it of each tensor; --transport fails rather than
take another):
  tcp     --server HOST:PORT
  unix    --server unix:/PATH
  shared  the same, with the server's --memory-socket: files are read into memory
          that it maps, and nothing is sent
  local   --server local

Without a server: --server local works in this process, on its GPUs or else
on the CPU. So does a command for which no server is named, where none answers
at 127.0.0.1:50151; it says so.

Example:
  quantd --listen 127.0.0.1:50151 &
  quantctl sample --out sample.safetensors
  quantctl roundtrip sample.safetensors
  quantctl plan --shape 4096,4096 --format mxfp8_e4m3 --usage both
  quantctl quantize sample.safetensors --format nvfp4_2d --usage both \
    --rounding stochastic --seed 7 -o sample.nvfp4.safetensors
  quantctl convert Llama-3.1-8B Llama-3.1-8B-NVFP4 --format nvfp4)";

int Main(int argc, char** argv) {
  CLI::App app(
      "Quantizes tensor files through a quantd server, or without one.",
      "quantctl");
  app.set_version_flag("--version", "quantctl " QUANTD_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
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

  CLI::App* info = command("info", "Show what a server is and can do", RunInfo);
  AddServer(info, &o);

  CLI::App* quantize = command(
      "quantize", "Quantize the tensors of a file into a .safetensors file",
      RunQuantize);
  AddServer(quantize, &o);
  AddInput(quantize, &o, "A .npy or .safetensors file");
  quantize
      ->add_option("-o,--out,--output", o.output,
                   "The .safetensors file to write, or - for standard output")
      ->required()
      ->type_name("FILE");
  AddQuantize(quantize, &o);

  CLI::App* dequantize = command(
      "dequantize", "Decode a file that 'quantize' wrote", RunDequantize);
  AddServer(dequantize, &o);
  AddInput(dequantize, &o, "A .safetensors file of quantized tensors");
  dequantize
      ->add_option("-o,--out,--output", o.output,
                   "The .npy (one tensor) or .safetensors file to write, or - "
                   "for the latter on standard output")
      ->required()
      ->type_name("FILE");
  AddDType(dequantize, &o, "Type to write (default: what it was made from)");
  Named(
      dequantize, "--usage", "USAGE",
      "The copy to decode (default: rowwise if there)", "rowwise or columnwise",
      [](const std::string& t) {
        const auto usage = ParseUsage(t);
        const bool one =
            usage == Usage::kRowwise || usage == Usage::kColumnwise;
        return one ? usage : std::nullopt;
      },
      [&o](Usage u) { o.decode_usage = u; });
  Named(dequantize, "--profile", "LIBRARY",
        "Decode as this library does (default: the one whose bytes they are)",
        ProfileNames(), ParseProfile,
        [&o](Profile p) { o.decode_profile = p; });

  CLI::App* amax = command(
      "amax", "Show the largest magnitudes of tensors, plain and after RHT",
      RunAmax);
  AddServer(amax, &o);
  AddInput(amax, &o, "A .npy or .safetensors file");
  AddFlatten(amax, &o);
  AddRotation(amax, &o);
  Named(amax, "--domain", "DOMAIN", "What one amax stands for (default tensor)",
        "tensor, or row: each row of the operand", ParseAmaxDomain,
        [&o](AmaxDomain d) { o.domain = d; });
  AddSplits(amax, &o);

  CLI::App* roundtrip = command(
      "roundtrip", "Quantize, decode and report the signal-to-noise ratio",
      RunRoundtrip);
  AddServer(roundtrip, &o);
  AddInput(roundtrip, &o, "A .npy or .safetensors file");
  AddQuantize(roundtrip, &o);
  AddDType(roundtrip, &o, "Type to decode to (default f32)");

  CLI::App* plan = command(
      "plan",
      "Show what quantizing would give: every part and the memory; computed "
      "here, or asked of a server with --server",
      RunPlan);
  plan->add_option("input", o.input,
                   "A .npy or .safetensors file whose tensors are meant")
      ->type_name("FILE");
  plan->add_option("--tensor", o.tensors,
                   "Only this tensor of the file (may be repeated)")
      ->allow_extra_args(false)
      ->type_name("NAME");
  plan->add_option("--shape", o.shape, "Instead of a file: a tensor like this")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("DIM,...");
  AddDType(plan, &o, "Its type (default bf16)");
  plan->add_flag(
      "--kernels", o.kernels,
      "Show which kernels compute it on a GPU and on the CPU; without "
      "a file and --shape, a row for every format, copies and type");
  plan->add_option("--server", o.plan_server,
                   "Ask this server; its answer must be what is computed here");
  AddCredentials(plan, &o);
  AddDeadline(plan, &o);
  AddQuantize(plan, &o);

  AddModelCommands(&app, &o, &run);
  AddBench(&app, &o, &run);

  CLI::App* sample = command(
      "sample",
      "Write a file with a Gaussian and an outlier-heavy tensor; no server",
      RunSample);
  sample
      ->add_option("-o,--out,--output", o.output,
                   "The file to write, or - for standard output")
      ->required()
      ->type_name("FILE.safetensors");
  sample->add_option("--rows", o.sample_rows, "Rows of each tensor")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  sample->add_option("--cols", o.sample_cols, "Columns of each tensor")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  sample->add_option("--seed", o.sample_seed, "Seed of both tensors")
      ->capture_default_str();

  try {
    quantd::ReadNumbersStrictly(&app);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (app.exit(e) == 0) return kOk;
    const std::string guess = Suggestion(app, argc, argv);
    if (!guess.empty()) fmt::print(stderr, "{}\n", guess);
    return kUsage;
  }
  if (const auto s = Settle(&o); !s.ok()) {
    fmt::print(stderr, "{}\n", std::string(s.message()));
    return kUsage;
  }
  // What computes can do without a server; `info` asks about one, `bench`
  // measures one, and `plan` asks only where one is named.
  for (const CLI::App* sub : app.get_subcommands()) {
    if (sub == info || sub == plan || sub->get_name() == "bench") continue;
    const CLI::Option* server = sub->get_option_no_throw("--server");
    const CLI::Option* dry_run = sub->get_option_no_throw("--dry-run");
    const CLI::Option* target = sub->get_option_no_throw("--target");
    const bool measures = target != nullptr && *target;
    // The way back to plain weights computes here whoever is there.
    const CLI::Option* dialect = sub->get_option_no_throw("--dialect");
    const bool back =
        dialect != nullptr && *dialect && dialect->as<std::string>() == "none";
    const bool computes =
        server != nullptr && !back && (measures || !(dry_run && *dry_run));
    if (computes && server->empty()) SettleServer(&o);
  }
  if (const auto s = CheckTransport(o); !s.ok()) {
    fmt::print(stderr, "{}\n", std::string(s.message()));
    return kUsage;
  }
  return run(o);
}

}  // namespace
}  // namespace quantd::quantctl

int main(int argc, char** argv) {
  quantd::quantctl::RemoveDraftsOnSignals();
  quantd::TuneAllocatorForBulkTransfers();
  // Files may be larger than memory allows, and libraries below may throw.
  using namespace quantd::quantctl;
  try {
    const int code = Main(argc, argv);
    if (std::fflush(stdout) == 0 || code != kOk) return code;
    fmt::print(stderr, "quantctl: cannot write to standard output: {}\n",
               std::strerror(errno));
    return kCannotWrite;
  } catch (const std::system_error& e) {
    // What fmt::print throws.
    fmt::print(stderr, "quantctl: {}\n", e.what());
    return kCannotWrite;
  } catch (const std::exception& e) {
    fmt::print(stderr, "quantctl: internal error: {}\n", e.what());
    return kInternal;
  }
}
