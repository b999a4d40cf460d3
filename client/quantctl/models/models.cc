#include "client/quantctl/models/models.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "client/checkpoint/convert/output_directory.h"
#include "client/checkpoint/dialect.h"
#include "client/checkpoint/repair/repair.h"
#include "client/checkpoint/report/report.h"
#include "client/files/file.h"
#include "client/quantctl/flags.h"
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
    Add(app, flag, words, type, help)->allow_extra_args(false)->group(kChoice);
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
  Add(app, "--report", directory, "DIR",
      "Also write report.html and report.json to this directory: the error of "
      "each weight and its cause");
}

using Run = std::function<int(const Options&)>;

void AddChecks(CLI::App* app, Options* o, Run* run) {
  const auto command =
      [&](const char* name, const char* help,
          int (*function)(const Options&, const CheckOptions&)) {
        const auto options = std::make_shared<CheckOptions>();
        CLI::App* sub = app->add_subcommand(name, help);
        sub->callback([run, function, options] {
          *run = [=](const Options& all) { return function(all, *options); };
        });
        Add(sub, "MODEL", &options->model, "MODEL",
            "A model's directory or .safetensors file")
            ->required();
        AddJson(sub, o, "Print one JSON object instead of text",
                "Name every tensor");
        return std::pair(sub, options.get());
      };
  command("inspect",
          "Show the formats, sizes and dialect of a model; needs no server",
          RunInspect);
  const auto [lint, lint_options] =
      command("lint",
              "Find faults of a quantized model, also those that engines load "
              "without an error; needs no server",
              RunLint);
  Add(lint, "--original", &lint_options->original, "MODEL",
      "The original model, to compare every weight with; in large models some "
      "rows of each weight");
  const auto [repair, repair_options] =
      command("repair",
              "Repair faults that lint finds, if that needs no new "
              "quantization, into a new directory; needs no server",
              RunRepair);
  Add(repair, "OUT", &repair_options->other, "OUT", "The directory to write")
      ->required();
  Add(repair, "--original", &repair_options->original, "MODEL",
      "The original model, which reveals wrong orders of half bytes and "
      "scales");
  repair->add_flag("--force", repair_options->force,
                   "Replace the model in OUT (default: refuse)");
  Named(repair, "--dialect", "DIALECT",
        "Dialect of the repaired model, if config.json names none",
        DialectNames(), ParseDialect, &repair_options->dialect);
  const auto [verify, verify_options] =
      command("verify",
              "Quantize the original again and count the bytes of quantized "
              "weights that differ",
              RunVerify);
  Add(verify, "--original", &verify_options->original, "MODEL",
      "The original model")
      ->required();
  Named(verify, "--profile", "LIBRARY",
        "Library whose arithmetic to use (default: the one that the file "
        "names, or the dialect's)",
        ProfileNames(), ParseProfile, &verify_options->profile);
  AddServer(verify, o);
  const auto [compare, compare_options] =
      command("compare",
              "Compare two models tensor by tensor, in any formats and "
              "dialects, and judge whether OTHER is as close to MODEL as its "
              "formats allow; needs no server",
              RunCompare);
  Add(compare, "OTHER", &compare_options->other, "OTHER",
      "The model whose errors are reported")
      ->required();
  Add(compare, "--fail-below", &compare_options->fail_below, "DB",
      "Exit with code 8 if the SQNR of any tensor that both models have is "
      "below this many dB. Tensors of MODEL that cannot be compared also cause "
      "code 8. By default the limit is half the usual SQNR of the format (10.2 "
      "for nvfp4, 9.4 for mxfp4, 15.8 for fp8 and mxfp8), for each row 8 dB "
      "less than the usual one, and tensors that neither model quantizes must "
      "be equal");
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

absl::Status PrepareReport(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(),
                               fmt::format("cannot create {}", directory));
  }
  if (access(directory.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno,
                             fmt::format("cannot write into {}", directory));
}

absl::Status WriteReport(const std::string& directory,
                         const checkpoint::Model& a, const checkpoint::Model& b,
                         checkpoint::ModelDifference difference,
                         const std::vector<std::string>& notes) {
  const auto report = MakeReport(a, b, std::move(difference), notes);
  if (!report.ok()) return report.status();
  const auto s =
      WriteTextFile(directory + "/report.html", checkpoint::PageOf(*report));
  if (!s.ok()) return s;
  return WriteTextFile(
      directory + "/report.json",
      JsonOf(*report).dump(2, ' ', false,
                           checkpoint::Json::error_handler_t::replace) +
          "\n");
}

void AddModelCommands(CLI::App* app, Options* o,
                      std::function<int(const Options&)>* run) {
  using W = checkpoint::WeightFormat;
  const auto options = std::make_shared<ConvertOptions>();
  ConvertOptions* c = options.get();
  CLI::App* convert =
      app->add_subcommand("convert",
                          "Quantize a whole model into a directory that vLLM, "
                          "SGLang, TensorRT-LLM or transformers can load");
  convert->callback([run, options] {
    if (options->scale_search) {
      if (options->automatic || options->selection.format != W::kNvfp4) {
        throw CLI::ValidationError("--scale-search", "only with nvfp4");
      }
      options->selection.format = W::kNvfp4Search;
      options->format_named = true;
    }
    *run = [options](const Options& all) { return RunConvert(all, *options); };
  });
  Add(convert, "IN", &c->in, "IN", "A model's directory or .safetensors file")
      ->required();
  Add(convert, "OUT", &c->out, "OUT", "The directory to write")->required();
  AddList(convert, "--shards", &c->shards, "NAME,NAME,...",
          "Convert only these shards, by name. Weights that share an amax must "
          "be in the same call. The other shards may be missing; files beside "
          "the shards are copied with the first shard (default: all)");
  Named(convert, "--dialect", "DIALECT",
        "Library whose names and layout to write (default compressed-tensors)",
        DialectNames(), ParseDialect, &c->selection.dialect);
  // nullopt stands for "auto".
  using Choice = std::optional<W>;
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
        c->selection.format = f.value_or(W::kNvfp4);
      });
  convert->add_flag("--scale-search", c->scale_search,
                    "With --format nvfp4: try six scales for each block, for "
                    "about 1.3 dB more; like --format nvfp4_search");
  Add(convert, "--target", &c->target, "DB|SIZE",
      "With --format auto: decibels, like 25dB, for the smallest format of "
      "each weight with at least that SQNR; or bytes, like 4.5GiB, for the "
      "formats with the least error that fit. A model that already fits is not "
      "converted");
  convert->add_flag("--force", c->force,
                    "Replace the model in OUT (default: refuse)");
  Add(convert, "--rules", &c->rules_file, "FILE",
      "File with a rule on each line; rules of --rule precede them");
  Add(convert, "--write-rules", &c->write_rules, "FILE",
      "File to which --format auto writes the chosen formats, for --rules "
      "(default: OUT.rules)");
  Named(convert, "--profile", "LIBRARY",
        "Library whose arithmetic to use (default: the dialect's)",
        ProfileNames(), ParseProfile, &c->selection.profile);
  convert->add_flag("--dry-run", c->dry_run,
                    "Show the plan, from the headers only; needs no server and "
                    "writes nothing");
  Add(convert, "--input-amax", &c->input_amax_file, "FILE",
      "JSON file with the largest input of each module, for formats that "
      "quantize activations with stored scales; python -m quantd calibrate "
      "writes it");
  Add(convert, "--kv-cache", &c->kv_cache, "fp8",
      "Also write scales for an FP8 cache of keys and values, from the largest "
      "keys and values in the file of --input-amax")
      ->check(CLI::IsMember({"fp8"}));
  convert->add_flag("--statistics", c->statistics,
                    "Also show the SQNR of each weight");
  AddReport(convert, &c->report);
  convert->add_option("--memory", c->memory_mib, "MiB of memory to use at most")
      ->check(CLI::Range(uint64_t{128}, uint64_t{1} << 20))
      ->capture_default_str();
  AddChecks(app, o, run);
  AddPatterns(convert, &c->selection);
  AddServer(convert, o);
  AddJson(convert, o,
          "Print events instead of text, one JSON object on each line",
          "Name every weight, quantized or left out");
}

}  // namespace quantd::quantctl
