#include "client/quantctl/models/models.h"

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "client/checkpoint/convert/output_directory.h"
#include "client/checkpoint/dialect.h"
#include "client/checkpoint/repair/passes.h"
#include "client/quantctl/flags.h"
#include "client/quantctl/server_choice.h"
#include "fmt/format.h"
#include "kernels/plan/profile/profile.h"

namespace quantd::quantctl {
namespace {

using checkpoint::DialectNames;
using checkpoint::Model;
using checkpoint::ParseDialect;
using checkpoint::ParseWeightFormat;
using checkpoint::WeightFormatNames;

constexpr char kChoice[] = "Which weights";

void AddPatterns(CLI::App* app, checkpoint::Selection* s) {
  const auto list = [&](const char* flag, std::vector<std::string>* words,
                        const char* type, const char* help) {
    app->add_option(flag, *words, help)
        ->allow_extra_args(false)
        ->type_name(type)
        ->group(kChoice);
  };
  list("--only", &s->only, "PATTERN",
       "Of the modules quantized by default, quantize only these: a name with "
       "* and ?, or re:EXPRESSION (may be repeated, like the options below)");
  list("--ignore", &s->ignore, "PATTERN", "Do not quantize these modules");
  list("--include", &s->include, "PATTERN",
       "Quantize these modules although they are heads, embeddings, routers, "
       "vision towers or MTP heads");
  list("--rule", &s->rules, "PATTERN=FORMAT",
       "Use another format for these modules, or bf16 to leave them "
       "unquantized; the first rule that matches applies");
  list("--fuse", &s->fuse, "NAME,NAME,...",
       "Further siblings that engines fuse and that share a scale, in addition "
       "to known ones such as q_proj, k_proj and v_proj");
}

void AddReport(CLI::App* app, std::string* directory) {
  app->add_option("--report", *directory,
                  "Also write report.html and report.json to this directory: "
                  "the error of each weight and its cause")
      ->type_name("DIR");
}

using Run = std::function<int(const Options&)>;

void AddChecks(CLI::App* app, Options* o, Run* run) {
  const auto command = [&](const char* name, const char* help,
                           int (*function)(const Options&,
                                           const CheckOptions&)) {
    const auto options = std::make_shared<CheckOptions>();
    CLI::App* sub = app->add_subcommand(name, help);
    sub->callback([run, function, options] {
      *run = [=](const Options& all) { return function(all, *options); };
    });
    sub->add_option("MODEL", options->model,
                    "A model's directory or .safetensors file")
        ->required()
        ->type_name("MODEL");
    sub->add_flag("--json", o->json, "Print one JSON object instead of text");
    sub->add_flag("-v,--verbose", o->verbose, "Name every tensor");
    return std::pair(sub, options.get());
  };
  command("inspect",
          "Show the formats, sizes and dialect of a model; needs no server",
          RunInspect);
  const auto [lint, lint_options] =
      command("lint",
              "Find faults of a quantized model, also those that engines load "
              "silently; needs no server",
              RunLint);
  lint->add_option("--original", lint_options->original,
                   "The original model: compare every weight with it, of large "
                   "models some rows of each")
      ->type_name("MODEL");
  const auto [repair, repair_options] =
      command("repair",
              "Repair faults that lint finds, if that needs no new "
              "quantization, into a new directory; needs no server",
              RunRepair);
  repair->add_option("OUT", repair_options->other, "The directory to write")
      ->required()
      ->type_name("OUT");
  repair
      ->add_option("--original", repair_options->original,
                   "The original model, which reveals wrong orders of half "
                   "bytes and scales")
      ->type_name("MODEL");
  repair->add_flag("--force", repair_options->force,
                   "Replace the model in OUT (default: refuse)");
  Named(repair, "--dialect", "DIALECT",
        "Dialect of the repaired model, if config.json names none",
        DialectNames(), ParseDialect,
        [c = repair_options](checkpoint::Dialect d) { c->dialect = d; });
  const auto [verify, verify_options] = command(
      "verify",
      "Quantize the original again and count the bytes of a model that differ",
      RunVerify);
  verify
      ->add_option("--original", verify_options->original, "The original model")
      ->required()
      ->type_name("MODEL");
  Named(verify, "--profile", "LIBRARY",
        "Library whose arithmetic to use (default: the one that the file "
        "names, or the dialect's)",
        ProfileNames(), ParseProfile,
        [c = verify_options](Profile p) { c->profile = p; });
  AddServer(verify, o);
  const auto [compare, compare_options] =
      command("compare",
              "Compare two models tensor by tensor, in any formats and "
              "dialects, and judge whether OTHER is as close to MODEL as its "
              "formats allow; needs no server",
              RunCompare);
  compare
      ->add_option("OTHER", compare_options->other,
                   "The model whose errors are reported")
      ->required()
      ->type_name("OTHER");
  compare
      ->add_option("--fail-below", compare_options->fail_below,
                   "Exit with code 8 if the SQNR of any tensor of both models "
                   "is below this many dB. Tensors of MODEL that cannot be "
                   "compared also cause code 8. The default limit is half the "
                   "usual SQNR of the format: 10.2 for nvfp4, 9.4 for mxfp4 "
                   "and between unquantized models, 15.8 for fp8 and mxfp8")
      ->type_name("DB");
  AddReport(compare, &compare_options->report);
}

// Whether `path` looks like "org/name", a model on the Hub.
bool IsHubId(const std::string& path) {
  const size_t slash = path.find('/');
  return slash != std::string::npos && slash > 0 && slash + 1 < path.size() &&
         path.find('/', slash + 1) == std::string::npos &&
         path.front() != '.' && path.front() != '~' &&
         !path.ends_with(".safetensors");
}

}  // namespace

absl::StatusOr<Model> OpenModel(const std::string& path,
                                const std::vector<std::string>& only) {
  auto model = Model::Open(path, only);
  if (!absl::IsNotFound(model.status()) || !IsHubId(path)) return model;
  return absl::NotFoundError(
      fmt::format("{}: no such file or directory. If it is a model on the "
                  "Hugging Face Hub, download it first and pass the "
                  "directory:\n  hf download {} --local-dir {}",
                  path, path, path.substr(path.find('/') + 1)));
}

absl::Status MayWrite(const Model& model, const std::string& out, bool force) {
  namespace fs = std::filesystem;
  const auto refused = CheckOutput(model, out);
  if (!absl::IsAlreadyExists(refused)) return refused;
  // --force removes only models.
  std::error_code error;
  bool is_model = out.ends_with(".safetensors");
  for (const auto& entry : fs::directory_iterator(out, error)) {
    is_model |= entry.path().extension() == ".safetensors";
  }
  if (!is_model || force) {
    return is_model ? absl::OkStatus() : refused;
  }
  return absl::AlreadyExistsError(fmt::format("{}, or replace it with --force",
                                              std::string(refused.message())));
}

absl::Status Clear(const Model& model, const std::string& out, bool force) {
  const auto s = MayWrite(model, out, force);
  const bool there = absl::IsAlreadyExists(CheckOutput(model, out));
  return s.ok() && there ? checkpoint::RemoveOutput(out) : s;
}

void AddModelCommands(CLI::App* app, Options* o,
                      std::function<int(const Options&)>* run) {
  const auto options = std::make_shared<ConvertOptions>();
  ConvertOptions* c = options.get();
  CLI::App* convert =
      app->add_subcommand("convert",
                          "Quantize a whole model into a directory that vLLM, "
                          "SGLang, TensorRT-LLM or transformers can load");
  convert->callback([run, options] {
    *run = [options](const Options& all) { return RunConvert(all, *options); };
  });
  convert->add_option("IN", c->in, "A model's directory or .safetensors file")
      ->required()
      ->type_name("IN");
  convert->add_option("OUT", c->out, "The directory to write")
      ->required()
      ->type_name("OUT");
  convert
      ->add_option(
          "--shards", c->shards,
          "Convert only these shards, by name. Weights that share an amax must "
          "be in the same call. The other shards may be missing; files beside "
          "the shards are copied with the first shard (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,NAME,...");
  Named(convert, "--dialect", "DIALECT",
        "Library whose names and layout to write (default compressed-tensors)",
        DialectNames(), ParseDialect,
        [c](checkpoint::Dialect d) { c->selection.dialect = d; });
  // nullopt stands for "auto".
  using Choice = std::optional<checkpoint::WeightFormat>;
  Named(
      convert, "--format", "FORMAT",
      "Format of the weights (default nvfp4, or the dialect's first)",
      "auto, " + WeightFormatNames(),
      [](const std::string& text) -> std::optional<Choice> {
        if (text == "auto") return Choice();
        const auto format = ParseWeightFormat(text);
        return format ? std::optional<Choice>(format) : std::nullopt;
      },
      [c](Choice f) {
        c->automatic = !f;
        c->format_named = true;
        c->selection.format = f.value_or(checkpoint::WeightFormat::kNvfp4);
      });
  convert
      ->add_option(
          "--target", c->target,
          "With --format auto: decibels, like 25dB, for the smallest format of "
          "each weight with at least that SQNR; or bytes, like 4.5GiB, for the "
          "formats with the least error that fit. A model that already fits is "
          "not converted")
      ->type_name("DB|SIZE");
  convert->add_flag("--force", c->force,
                    "Replace the model in OUT (default: refuse)");
  convert
      ->add_option(
          "--rules", c->rules_file,
          "File with a rule on each line; rules of --rule precede them")
      ->type_name("FILE");
  convert
      ->add_option("--write-rules", c->write_rules,
                   "File to which --format auto writes the chosen formats, for "
                   "--rules (default: OUT.rules)")
      ->type_name("FILE");
  Named(convert, "--profile", "LIBRARY",
        "Library whose arithmetic to use (default: the dialect's)",
        ProfileNames(), ParseProfile,
        [c](Profile p) { c->selection.profile = p; });
  convert->add_flag("--dry-run", c->dry_run,
                    "Show the plan, from the headers only; needs no server and "
                    "writes nothing");
  convert
      ->add_option("--input-amax", c->input_amax_file,
                   "JSON file with the largest input of each module, for "
                   "formats that quantize activations with scales from the "
                   "file; python -m quantd calibrate writes it")
      ->type_name("FILE");
  convert
      ->add_option("--kv-cache", c->kv_cache,
                   "Also write scales for an FP8 cache of keys and values, of "
                   "those that the file of --input-amax has")
      ->check(CLI::IsMember({"fp8"}))
      ->type_name("fp8");
  convert->add_flag("--statistics", c->statistics,
                    "Also show the SQNR of each weight");
  AddReport(convert, &c->report);
  convert->add_option("--memory", c->memory_mib, "MiB of memory to use at most")
      ->check(CLI::Range(uint64_t{128}, uint64_t{1} << 20))
      ->capture_default_str();
  AddChecks(app, o, run);
  AddPatterns(convert, &c->selection);
  AddServer(convert, o);
  convert->add_flag(
      "--json", o->json,
      "Print events instead of text, one JSON object on each line");
  convert->add_flag("-v,--verbose", o->verbose,
                    "Name every weight, quantized or left out");
}

}  // namespace quantd::quantctl
