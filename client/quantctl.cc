// quantctl: quantizes tensor files through a quantd server.

#include "client/quantctl.h"

#include <CLI/CLI.hpp>

#include "client/allocator.h"
#include "client/quantized_file.h"
#include "fmt/format.h"

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
  6  some tensors failed, the others are done
  7  the output cannot be written

Example:
  quantd --listen 127.0.0.1:50151 &
  quantctl sample --out sample.safetensors
  quantctl roundtrip sample.safetensors)";

// An option whose text is turned into a value by `parse`, which gives
// std::optional.
template <typename Parse, typename Assign>
CLI::Option* Named(CLI::App* app, const char* name, const char* type,
                   const char* help, const char* legal, Parse parse,
                   Assign assign) {
  return app
      ->add_option_function<std::string>(
          name,
          [=](const std::string& text) {
            const auto value = parse(text);
            if (!value) {
              throw CLI::ValidationError(
                  name, std::string("expected ") + legal + ", got " + text);
            }
            assign(*value);
          },
          std::string(help) + ": " + legal)
      ->type_name(type);
}

std::optional<RhtOptions> ParseRht(std::string_view text) {
  RhtOptions rht;
  if (text == "none") return rht;
  const auto usage = ParseUsage(text);
  if (!usage) return std::nullopt;
  rht.rowwise = HasRowwise(*usage);
  rht.columnwise = HasColumnwise(*usage);
  return rht;
}

std::optional<DType> ParseFloat(std::string_view text) {
  const auto dtype = ParseDType(text);
  return dtype && IsFloat(*dtype) ? dtype : std::nullopt;
}

void AddServer(CLI::App* app, Options* o) {
  app->add_option("--server", o->server, "Address of the server")
      ->envname("QUANTD_SERVER")
      ->capture_default_str();
  app->add_option("--deadline", o->deadline_seconds,
                  "Seconds a call may take, retries included")
      ->check(CLI::Range(0.001, 86400.0))
      ->capture_default_str();
}

void AddJson(CLI::App* app, Options* o) {
  app->add_flag("--json", o->json, "Print one JSON object instead of a table");
}

void AddInput(CLI::App* app, Options* o, const char* what) {
  app->add_option("input", o->input, what)->required()->type_name("FILE");
  app->add_option("--tensor", o->tensors,
                  "Only this tensor of the file (may be repeated)")
      ->allow_extra_args(false)
      ->type_name("NAME");
}

void AddFlatten(CLI::App* app, Options* o) {
  app->add_option("--flatten-axis", o->flatten_axis,
                  "Where the dimensions split into rows and columns")
      ->capture_default_str();
}

void AddMask(CLI::App* app, Options* o) {
  Named(
      app, "--sign-mask", "HEX",
      "Sign mask of the RHT, bit i set: sign i is -1",
      "16 bits as HEX, like 0xD7E8",
      [](const std::string& t) { return SignMaskFromHex(t, 16); },
      [o](SignMask m) { o->quantize.rht.sign_mask = m; });
  Named(
      app, "--non-finite", "POLICY", "What NaN and Inf in the input do",
      "ignore, propagate or reject",
      [](const std::string& t) { return ParseNonFinite(t); },
      [o](NonFinite n) { o->quantize.non_finite = n; });
}

void AddQuantize(CLI::App* app, Options* o) {
  AddFlatten(app, o);
  Named(
      app, "--format", "FORMAT", "Format of the codes (default nvfp4)", "nvfp4",
      [](const std::string& t) { return ParseFormat(t); },
      [o](Format f) { o->quantize.format = f; });
  Named(
      app, "--usage", "USAGE",
      "Which copies to make (default: those to rotate, else rowwise)",
      "rowwise, columnwise or both",
      [](const std::string& t) { return ParseUsage(t); },
      [o](Usage u) { o->usage = u; });
  Named(
      app, "--rht", "USAGE", "Which copies to rotate first (default none)",
      "none, rowwise, columnwise or both",
      [](const std::string& t) { return ParseRht(t); },
      [o](RhtOptions r) {
        o->quantize.rht.rowwise = r.rowwise;
        o->quantize.rht.columnwise = r.columnwise;
      });
  AddMask(app, o);
  app->add_option("--rowwise-amax", o->quantize.rowwise_amax,
                  "Use this amax for the rowwise copy instead of computing it; "
                  "without RHT one amax serves both copies");
  app->add_option("--columnwise-amax", o->quantize.columnwise_amax,
                  "The same for the columnwise copy");
}

CLI::Option* AddDType(CLI::App* app, Options* o, const char* help) {
  return Named(
      app, "--dtype", "DTYPE", help, "f32, f16 or bf16",
      [](const std::string& t) { return ParseFloat(t); },
      [o](DType t) { o->dtype = t; });
}

// Settles the usage, which --rht implies where nobody named it.
bool SettleUsage(Options* o) {
  QuantizeOptions& q = o->quantize;
  const int rotated = (q.rht.rowwise ? 1 : 0) | (q.rht.columnwise ? 2 : 0);
  if (o->usage == Usage::kUnspecified) {
    q.usage = rotated == 0 ? Usage::kRowwise : static_cast<Usage>(rotated);
    return true;
  }
  q.usage = o->usage;
  if ((rotated & ~static_cast<int>(q.usage)) == 0) return true;
  fmt::print(stderr,
             "--rht: rotates a copy that --usage {} does not make; add it to "
             "--usage or leave it out of --rht\n",
             Name(q.usage));
  return false;
}

int Main(int argc, char** argv) {
  CLI::App app("Quantizes tensor files through a quantd server.", "quantctl");
  app.set_version_flag("--version", QUANTD_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  Options o;
  o.quantize.format = Format::kNvfp4;
  int (*run)(const Options&) = nullptr;
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
                   "The .safetensors file to write")
      ->required()
      ->type_name("FILE");
  AddQuantize(quantize, &o);

  CLI::App* dequantize = command(
      "dequantize", "Decode a file that 'quantize' wrote", RunDequantize);
  AddServer(dequantize, &o);
  AddInput(dequantize, &o, "A .safetensors file of quantized tensors");
  dequantize
      ->add_option("-o,--out,--output", o.output,
                   "The .npy (one tensor) or .safetensors file to write")
      ->required()
      ->type_name("FILE");
  AddDType(dequantize, &o, "Type to write (default: what it was made from)");
  Named(
      dequantize, "--usage", "USAGE",
      "The copy to decode (default: rowwise if there)", "rowwise or columnwise",
      [](const std::string& t) {
        const auto usage = ParseUsage(t);
        return usage == Usage::kBoth ? std::nullopt : usage;
      },
      [&o](Usage u) { o.decode_usage = u; });

  CLI::App* amax = command(
      "amax", "Show the largest magnitudes of tensors, plain and after RHT",
      RunAmax);
  AddServer(amax, &o);
  AddInput(amax, &o, "A .npy or .safetensors file");
  AddFlatten(amax, &o);
  AddMask(amax, &o);

  CLI::App* roundtrip = command(
      "roundtrip", "Quantize, decode and report the signal-to-noise ratio",
      RunRoundtrip);
  AddServer(roundtrip, &o);
  AddInput(roundtrip, &o, "A .npy or .safetensors file");
  AddQuantize(roundtrip, &o);
  AddDType(roundtrip, &o, "Type to decode to (default f32)");

  CLI::App* sample = command(
      "sample",
      "Write a file with a Gaussian and an outlier-heavy tensor; no server",
      RunSample);
  sample->add_option("-o,--out,--output", o.output, "The file to write")
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
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kOk : kUsage;
  }
  return SettleUsage(&o) ? run(o) : kUsage;
}

}  // namespace
}  // namespace quantd::quantctl

int main(int argc, char** argv) {
  quantd::TuneAllocatorForBulkTransfers();
  // Files may be larger than memory allows, and libraries below may throw.
  try {
    return quantd::quantctl::Main(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "quantctl: internal error: {}\n", e.what());
    return quantd::quantctl::kInternal;
  }
}
