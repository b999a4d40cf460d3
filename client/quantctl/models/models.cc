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
       "Of those that would be taken, only these modules: a name with * and ?, "
       "or re:EXPRESSION (may be repeated, as the others)");
  list("--ignore", &s->ignore, "PATTERN", "Leave these modules as they are");
  list("--include", &s->include, "PATTERN",
       "Take these, too, though they are heads, embeddings, routers, vision "
       "towers or heads for further tokens");
  list("--rule", &s->rules, "PATTERN=FORMAT",
       "Another format for these, or bf16 to leave them as they are; the first "
       "that matches counts");
  list("--fuse", &s->fuse, "NAME,NAME,...",
       "Siblings that an engine fuses and that share a scale, beside q_proj, "
       "k_proj, v_proj, gate_proj, up_proj and the like");
}

void AddReport(CLI::App* app, std::string* directory) {
  app->add_option("--report", *directory,
                  "Also write report.html and report.json there: how far each "
                  "weight is from the original, where and why")
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
  command("inspect", "Show what a model is: formats, sizes, dialect; no server",
          RunInspect);
  const auto [lint, lint_options] = command(
      "lint",
      "Look for faults of a quantized model that engines load without a word; "
      "no server",
      RunLint);
  lint->add_option("--original", lint_options->original,
                   "The model that it was made from: every weight is held "
                   "against it, of large models some rows of each")
      ->type_name("MODEL");
  const auto [repair, repair_options] = command(
      "repair",
      "Mend what lint finds and can be mended without quantizing again, into a "
      "directory of its own; no server",
      RunRepair);
  repair->add_option("OUT", repair_options->other, "The directory to write")
      ->required()
      ->type_name("OUT");
  repair
      ->add_option("--original", repair_options->original,
                   "The model that it was made from, by which the order of "
                   "half bytes and of scales is told")
      ->type_name("MODEL");
  repair->add_flag("--force", repair_options->force,
                   "Replace the model that OUT is (default: refuse)");
  Named(repair, "--dialect", "DIALECT",
        "Whose names it is to have, where config.json does not say",
        DialectNames(), ParseDialect,
        [c = repair_options](checkpoint::Dialect d) { c->dialect = d; });
  const auto [verify, verify_options] = command(
      "verify",
      "Quantize the original again and count the bytes of a model that differ",
      RunVerify);
  verify
      ->add_option("--original", verify_options->original,
                   "The model that it was made from")
      ->required()
      ->type_name("MODEL");
  Named(verify, "--profile", "LIBRARY",
        "Whose arithmetic (default: what the file names, or that of the "
        "dialect's library)",
        ProfileNames(), ParseProfile,
        [c = verify_options](Profile p) { c->profile = p; });
  AddServer(verify, o);
  const auto [compare, compare_options] =
      command("compare",
              "Compare two models tensor by tensor, whatever their formats and "
              "dialects, and say whether OTHER is what its formats make of "
              "MODEL; no server",
              RunCompare);
  compare
      ->add_option("OTHER", compare_options->other,
                   "The other one, whose errors are told")
      ->required()
      ->type_name("OTHER");
  compare
      ->add_option(
          "--fail-below", compare_options->fail_below,
          "End with exit code 8 where the SQNR of any tensor that both have is "
          "below so many dB, as it ends where MODEL has one that was not "
          "compared. Without it "
          "the least is half the dB that the formats give normal numbers, "
          "which "
          "no conversion comes to: 10.2 for nvfp4, 9.4 for mxfp4 and between "
          "plain "
          "ones, 15.8 for fp8 and mxfp8")
      ->type_name("DB");
  AddReport(compare, &compare_options->report);
}

// Whether it looks like a model on the Hub, "org/name", rather than a path.
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
  return absl::NotFoundError(fmt::format(
      "{}: no such file or directory. If that is a model of the Hugging Face "
      "Hub, fetch it first, and name the directory:\n  hf download {} "
      "--local-dir {}",
      path, path, path.substr(path.find('/') + 1)));
}

absl::Status MayWrite(const Model& model, const std::string& out, bool force) {
  namespace fs = std::filesystem;
  const auto refused = CheckOutput(model, out);
  if (!absl::IsAlreadyExists(refused)) return refused;
  // --force removes only models, not anything else of that name.
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
  CLI::App* convert = app->add_subcommand(
      "convert",
      "Quantize a whole model into a directory that vLLM, SGLang, TensorRT-LLM "
      "or transformers load");
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
      ->add_option("--shards", c->shards,
                   "Only these of the model's shards, by their names: whole "
                   "groups of weights that share an amax. The others need not "
                   "be there; what lies beside shards goes with the first "
                   "(default: all)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,NAME,...");
  Named(convert, "--dialect", "DIALECT",
        "Whose names and layout (default compressed-tensors)", DialectNames(),
        ParseDialect, [c](checkpoint::Dialect d) { c->selection.dialect = d; });
  // nullopt: to be chosen.
  using Choice = std::optional<checkpoint::WeightFormat>;
  Named(
      convert, "--format", "FORMAT",
      "What weights become (default nvfp4, or what the dialect has)",
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
          "With --format auto: for each weight the cheapest format of "
          "at least so many dB, like 25dB; or the best that fits into "
          "so many bytes in all, like 4.5GiB; a model that is no larger "
          "stays as it is")
      ->type_name("DB|SIZE");
  convert->add_flag("--force", c->force,
                    "Replace the model that OUT is (default: refuse)");
  convert
      ->add_option("--rules", c->rules_file,
                   "A file of rules, a line each, after those of --rule")
      ->type_name("FILE");
  convert
      ->add_option("--write-rules", c->write_rules,
                   "Where --format auto writes what it chose, for --rules "
                   "(default: OUT.rules)")
      ->type_name("FILE");
  Named(convert, "--profile", "LIBRARY",
        "Whose arithmetic (default: that of the dialect's library)",
        ProfileNames(), ParseProfile,
        [c](Profile p) { c->selection.profile = p; });
  convert->add_flag("--dry-run", c->dry_run,
                    "Show what would be done, from the headers alone; no "
                    "server and nothing written");
  convert
      ->add_option("--input-amax", c->input_amax_file,
                   "JSON with the largest magnitude that comes into each "
                   "module, where activations are quantized with scales "
                   "from the file; python -m quantd calibrate makes it")
      ->type_name("FILE");
  convert->add_flag("--statistics", c->statistics,
                    "Also say how far each weight is from the original");
  AddReport(convert, &c->report);
  convert->add_option("--memory", c->memory_mib, "MiB that may be held at once")
      ->check(CLI::Range(uint64_t{128}, uint64_t{1} << 20))
      ->capture_default_str();
  AddChecks(app, o, run);
  AddPatterns(convert, &c->selection);
  AddServer(convert, o);
  convert->add_flag("--json", o->json,
                    "Print events, a JSON object a line, instead of text");
  convert->add_flag("-v,--verbose", o->verbose,
                    "Name every weight and what is left out");
}

}  // namespace quantd::quantctl
