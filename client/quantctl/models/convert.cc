// Implements `quantctl convert`.
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <variant>

#include "client/checkpoint/convert/conversion.h"
#include "client/checkpoint/convert/output_directory.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"
#include "client/files/model_files.h"
#include "client/quantctl/models/models.h"
#include "client/quantctl/signals.h"
#include "client/quantctl/terminal/terminal.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

using checkpoint::ConversionPlan;
using checkpoint::GroupDone;
using checkpoint::Model;
using checkpoint::Weight;

absl::StatusOr<float> ReadAmax(const std::string& path, std::string_view module,
                               const Json& value) {
  const float amax = value.is_number() ? value.get<float>() : -1.0f;
  if (std::isfinite(amax) && amax > 0) return amax;
  return absl::InvalidArgumentError(
      fmt::format("{}: module \"{}\": expected a finite number > 0, got {}",
                  path, module.substr(0, 200), value.dump().substr(0, 40)));
}

// Reads the largest magnitudes of inputs, and with `cache` those of cached keys
// and values.
absl::Status ReadInputAmax(const std::string& path, bool cache,
                           checkpoint::Selection* selection) {
  constexpr char kCacheNeeds[] =
      "--kv-cache fp8 needs --input-amax with largest keys and values, which "
      "python -m quantd calibrate finds";
  if (path.empty()) {
    return cache ? absl::InvalidArgumentError(kCacheNeeds) : absl::OkStatus();
  }
  const auto json =
      checkpoint::ReadJsonObject(InputFile::Open(path), size_t{256} << 20);
  if (!json.ok()) return json.status();
  // A file of `python -m quantd calibrate` has the numbers in "input_amax".
  constexpr std::string_view kSchema = "quantd.calibration/1";
  const Json* found = &*json;
  const auto whole = json->find("schema");
  if (whole != json->end()) {
    const auto inner = json->find("input_amax");
    if (*whole != kSchema || inner == json->end() || !inner->is_object()) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: expected \"schema\": \"{}\" and an object \"input_amax\", got "
          "{}",
          path, kSchema, whole->dump().substr(0, 40)));
    }
    found = &*inner;
  }
  for (const auto& [module, value] : found->items()) {
    const auto amax = ReadAmax(path, module, value);
    if (!amax.ok()) return amax.status();
    selection->input_amax[module] = *amax;
  }
  if (selection->input_amax.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the file names no module", path));
  }
  if (!cache) return absl::OkStatus();
  const auto pairs = json->find("kv_amax");
  if (whole == json->end() || pairs == json->end() || !pairs->is_object() ||
      pairs->empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: no \"kv_amax\"; {}", path, kCacheNeeds));
  }
  for (const auto& [attention, pair] : pairs->items()) {
    const bool both = pair.contains("k") && pair.contains("v");
    const auto keys = ReadAmax(path, attention, both ? pair["k"] : pair);
    const auto values = ReadAmax(path, attention, both ? pair["v"] : pair);
    if (!keys.ok()) return keys.status();
    if (!values.ok()) return values.status();
    selection->cache_amax[attention] = {*keys, *values};
  }
  return absl::OkStatus();
}

void PrintGroup(const GroupDone& done) {
  const Weight& first = done.group->weights.front();
  std::vector<std::string> modules;
  uint64_t bytes = 0;
  for (const Weight& w : done.group->weights) {
    modules.push_back(w.module);
    bytes += w.size_bytes();
  }
  Json json = {{"event", "group"},
               {"modules", modules},
               {"format", Name(first.layout->format)},
               {"bytes_in", bytes},
               {"seconds", done.seconds},
               {"resumed", done.resumed}};
  if (done.amax > 0) json["amax"] = done.amax;
  if (done.statistics) {
    json["sqnr_db"] = done.statistics->sqnr_db();
    json["max_error"] = done.statistics->max_error;
  }
  Event(json);
}

// The mean and the minimum of all finite SQNRs.
struct Quality {
  double sum = 0;
  size_t count = 0;
  std::optional<double> least = {};
  std::string least_module = {};

  void Add(const GroupDone& done) {
    if (!done.statistics) return;
    const double db = done.statistics->sqnr_db();
    if (!std::isfinite(db)) return;
    sum += db;
    ++count;
    if (least && *least <= db) return;
    least = db;
    least_module = done.group->weights.front().module;
  }
};

// The default format: NVFP4, or else the first format of the dialect.
checkpoint::WeightFormat DefaultFormat(checkpoint::Dialect dialect) {
  using checkpoint::WeightFormat;
  if (FindLayout(dialect, WeightFormat::kNvfp4)) return WeightFormat::kNvfp4;
  for (const checkpoint::WeightLayout& row : checkpoint::AllLayouts()) {
    if (row.dialect == dialect) return row.format;
  }
  return WeightFormat::kBf16;
}

// Raises the limit of open files, because each shard is open for reading and
// for writing.
void AllowManyFiles() {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

// Writes the report about the output, read again from disk.
absl::Status ReportOn(const ConvertOptions& convert, const Model& model,
                      const std::vector<std::string>& notes) {
  const auto made = Model::Open(convert.out);
  if (!made.ok()) return made.status();
  auto difference = CompareModels(model, *made);
  if (!difference.ok()) return difference.status();
  return WriteReport(convert.report, model, *made, *std::move(difference),
                     notes);
}

// Adds notes about files that describe the previous quantization and are not
// copied.
void NoteReplaced(const Model& model, ConversionPlan* plan) {
  for (const std::string_view name : kQuantizationFiles) {
    const bool written = plan->dialect == checkpoint::Dialect::kModelOpt &&
                         name == kQuantizationFiles[0];
    if (written || !model.folder().OpenFile(std::string(name)).ok()) continue;
    plan->notes.push_back(fmt::format(
        "left out, because it describes the previous quantization: {}", name));
  }
}

// The exit code of a failed conversion. The cause is a call if `call` is an
// error, else the source or the output.
int CodeOfConversion(const absl::Status& status, const absl::Status& call) {
  if (!call.ok()) return CodeOf(call);
  const bool source = status.code() == absl::StatusCode::kDataLoss ||
                      status.code() == absl::StatusCode::kInvalidArgument;
  return source ? kBadInput : kCannotWrite;
}

int SayItFits(const Options& options, const ConvertOptions& convert,
              uint64_t bytes, uint64_t most) {
  if (options.json) {
    Event({{"event", "fits"},
           {"bytes_in", bytes},
           {"target_bytes", most},
           {"exit_code", kOk}});
    return kOk;
  }
  fmt::print(
      "{} already fits: it has {}, and the target is {}. {} is not written.\n",
      convert.in, BytesText(bytes), BytesText(most), convert.out);
  return kOk;
}

// Measures the model in all formats and adds a rule for each weight to
// `selection`. Returns kOk or the exit code of an error that has been reported.
int TakeAdvice(const Options& options, const ConvertOptions& convert,
               const Model& model, const checkpoint::Target& target,
               uint64_t bytes, std::unique_ptr<ModelService>* service,
               checkpoint::Selection* selection,
               std::vector<std::string>* notes) {
  const int opened = ModelService::Open(options, convert.memory_mib, service);
  if (opened != kOk) return opened;
  ModelService& server = **service;
  auto progress = std::make_unique<Progress>(bytes);
  const auto advice = Advise(model, *selection, target, server.pace(), &server,
                             [&](size_t some) { progress->Add(some); });
  progress.reset();
  if (!advice.ok()) {
    return Fail(options, CodeOfConversion(advice.status(), server.failure()),
                advice.status());
  }
  PrintAdvice(options, *advice);
  *notes = advice->notes;
  const std::string path = RulesPathFor(convert);
  if (const auto s = WriteRules(path, convert, *advice); !s.ok()) {
    return Fail(options, kCannotWrite, s);
  }
  if (!options.json) fmt::print("wrote {}\n", path);
  selection->rules.insert(selection->rules.end(), advice->rules.begin(),
                          advice->rules.end());
  return kOk;
}

}  // namespace

int RunConvert(const Options& options, const ConvertOptions& convert) {
  AllowManyFiles();
  const Timer timer;
  const auto model = OpenModel(convert.in, convert.shards);
  if (!model.ok()) return Fail(options, kBadInput, model.status());
  checkpoint::Selection selection = convert.selection;
  if (!convert.format_named) {
    selection.format = DefaultFormat(selection.dialect);
  }
  const auto amaxes = ReadInputAmax(convert.input_amax_file,
                                    !convert.kv_cache.empty(), &selection);
  if (!amaxes.ok()) return Fail(options, kBadInput, amaxes);
  if (!convert.rules_file.empty()) {
    const auto rules = ReadRules(convert.rules_file);
    if (!rules.ok()) return Fail(options, kBadInput, rules.status());
    selection.rules.insert(selection.rules.end(), rules->begin(), rules->end());
  }
  if (convert.automatic == convert.target.empty()) {
    return Fail(
        options, kUsage,
        absl::InvalidArgumentError("--format auto and --target need each "
                                   "other, like --format auto --target 25dB"));
  }
  std::vector<std::string> notes;
  if (const auto s = MayWrite(*model, convert.out, convert.force); !s.ok()) {
    return Fail(options, kCannotWrite, s);
  }
  std::unique_ptr<ModelService> service;
  if (convert.automatic) {
    const auto target = checkpoint::ParseTarget(convert.target);
    if (!target.ok()) return Fail(options, kUsage, target.status());
    uint64_t bytes = 0;
    for (const auto& t : model->tensors()) bytes += t.stored.size;
    const auto* most = std::get_if<checkpoint::MostBytes>(&*target);
    if (most != nullptr && bytes <= most->bytes) {
      return SayItFits(options, convert, bytes, most->bytes);
    }
    const int code = TakeAdvice(options, convert, *model, *target, bytes,
                                &service, &selection, &notes);
    if (code != kOk) return code;
  }
  auto plan = MakeConversionPlan(*model, selection);
  if (!plan.ok()) return FailToOpen(options, plan.status());
  plan->notes.insert(plan->notes.end(), notes.begin(), notes.end());
  NoteReplaced(*model, &*plan);
  const checkpoint::Pace pace =
      service ? service->pace() : PaceOf(options, convert.memory_mib);
  const uint64_t memory = pace.memory();
  options.json ? PrintPlanEvent(*model, *plan, memory)
               : PrintPlan(options, *model, *plan, memory);
  std::fflush(stdout);
  if (convert.dry_run) return kOk;

  if (!convert.report.empty()) {
    if (const auto s = PrepareReport(convert.report); !s.ok()) {
      return Fail(options, kCannotWrite, s);
    }
  }
  // Decoding needs no server.
  if (!plan->groups.empty() && !service) {
    const int code = ModelService::Open(options, convert.memory_mib, &service);
    if (code != kOk) return code;
  }
  auto progress = std::make_unique<Progress>(plan->bytes_in);
  Quality quality;
  checkpoint::Conversion conversion = {*model, *plan, service.get(),
                                       service ? service->pace() : pace,
                                       convert.statistics};
  conversion.progress = [&](size_t bytes) { progress->Add(bytes); };
  conversion.done = [&](const GroupDone& done) {
    progress->Name(done.group->weights.back().module);
    quality.Add(done);
    if (options.json) PrintGroup(done);
  };
  if (const auto s = Clear(*model, convert.out, convert.force); !s.ok()) {
    return Fail(options, kCannotWrite, s);
  }
  const std::string again =
      "finished work is kept; repeat the command to continue";
  SayOnSignals(again);
  const auto result = checkpoint::Convert(conversion, convert.out);
  const double seconds = timer.seconds();
  progress.reset();
  SayOnSignals("");
  if (!result.ok()) {
    const int code = CodeOfConversion(
        result.status(), service ? service->failure() : absl::OkStatus());
    const int said = Fail(options, code, result.status());
    if (code == kUnreachable) fmt::print(stderr, "  {}.\n", again);
    std::error_code error;
    if (code == kBadInput && std::filesystem::exists(convert.out, error)) {
      fmt::print(stderr,
                 "  {} holds unfinished work of this command; remove it before "
                 "you convert another model or change options.\n",
                 convert.out);
    }
    return said;
  }
  if (!convert.report.empty()) {
    const auto s = ReportOn(convert, *model, plan->notes);
    if (!s.ok()) return Fail(options, kCannotWrite, s);
  }
  const double rate =
      static_cast<double>(result->bytes_in) / std::max(seconds, 1e-9);
  if (options.json) {
    Json done = {{"event", "done"},
                 {"output", convert.out},
                 {"weights", plan->weights()},
                 {"copied", plan->copies.size()},
                 {"bytes_in", plan->bytes_in},
                 {"bytes_out", plan->bytes_out},
                 {"resumed_bytes", result->resumed_bytes},
                 {"seconds", seconds},
                 {"bytes_in_per_second", rate},
                 {"zero_blocks", result->zero_blocks},
                 {"lost_weights", result->lost},
                 {"report", convert.report},
                 {"next", NextStep(*model, *plan, convert.out)},
                 {"exit_code", 0}};
    if (quality.least) {
      done["mean_sqnr_db"] = quality.sum / static_cast<double>(quality.count);
      done["least_sqnr_db"] = *quality.least;
    }
    Event(done);
    return kOk;
  }
  fmt::print(
      "total: {}, {} tensors copied, {} in, {} out ({:.3g} of the input), "
      "{:.2f} s, {}/s",
      FormatsText(*plan), plan->copies.size(), BytesText(plan->bytes_in),
      BytesText(plan->bytes_out), Ratio(plan->bytes_out, plan->bytes_in),
      seconds, BytesText(static_cast<uint64_t>(rate)));
  if (result->resumed_bytes > 0) {
    fmt::print(" ({} by an earlier run)", BytesText(result->resumed_bytes));
  }
  if (quality.least) {
    fmt::print(", SQNR {:.2f} dB on average, {:.2f} dB at least ({})",
               quality.sum / static_cast<double>(quality.count), *quality.least,
               quality.least_module);
  }
  if (result->zero_blocks > 0) {
    fmt::print(
        "\nnote: {} blocks of zeros have a scale that is NaN or infinite, for "
        "example in {}; they stay zeros",
        result->zero_blocks, result->zero_module);
  }
  if (const auto& lost = result->lost; !lost.empty()) {
    fmt::print("\nnote: {} weights became zeros, for example {}; --ignore them",
               lost.size(), lost.front());
  }
  fmt::print("\nwrote {}\n", convert.out);
  if (!convert.report.empty()) {
    fmt::print("wrote {}/report.html\n", convert.report);
  }
  fmt::print("{} {}\n", Painted(stdout, Colour::kBold, "next:"),
             NextStep(*model, *plan, convert.out));
  if (!plan->groups.empty() && model->left() == 0) {
    fmt::print("{} quantctl lint {} --original {}\n",
               Painted(stdout, Colour::kBold, "check:"), convert.out,
               convert.in);
  }
  return kOk;
}

}  // namespace quantd::quantctl
