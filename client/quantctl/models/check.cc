// Implements `quantctl inspect`, `compare` and `verify`. Only `verify` needs a
// server or device.
#include <memory>
#include <nlohmann/json.hpp>

#include "client/checkpoint/check/compare.h"
#include "client/checkpoint/check/input_scale.h"
#include "client/checkpoint/check/inventory.h"
#include "client/checkpoint/check/verify.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/report/verdict.h"
#include "client/checkpoint/stored.h"
#include "client/quantctl/models/models.h"
#include "client/quantctl/terminal/terminal.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

using checkpoint::Model;
using checkpoint::StoredWeight;
using checkpoint::TensorDifference;

// Formats a count with a unit: "2.1 M", "8.03 G".
std::string CountText(uint64_t count) {
  auto value = static_cast<double>(count);
  const char* unit = "";
  for (const char* next : {" k", " M", " G", " T"}) {
    if (value < 1000) break;
    value /= 1000;
    unit = next;
  }
  return fmt::format("{:.3g}{}", value, unit);
}

std::string Decibel(const TensorDifference& d) {
  if (d.not_finite > 0) return "NaN";
  return d.equal() ? "equal" : fmt::format("{:.2f}", d.sqnr_db);
}

std::string BytesOf(const TensorDifference& d) {
  if (!d.same_layout) return "";
  return fmt::format("{} of {}", d.differing_code_bytes, d.code_bytes);
}

std::string ScalesOf(const TensorDifference& d) {
  if (!d.same_layout) return "";
  return fmt::format("{} of {}", d.differing_scales, d.scales);
}

}  // namespace

int RunInspect(const Options& options, const CheckOptions& check) {
  if (const auto own = OpenOwn(check.model)) {
    return InspectOwn(options, check.model, *own);
  }
  const auto model = OpenModel(check.model);
  if (!model.ok()) return Fail(options, kBadInput, model.status());
  const auto stored = FindStored(*model);
  if (!stored.ok()) return Fail(options, kBadInput, stored.status());
  const auto kinds = InventoryOf(*model, *stored);
  const std::pair<const char*, const std::vector<checkpoint::UnclearWeight>*>
      odd[] = {{"unclear", &stored->unclear},
               {"altered", &stored->altered},
               {"factored", &stored->factored},
               {"orphaned", &stored->orphans}};
  const auto calibration = checkpoint::CalibrationOf(*model, *stored);
  if (!calibration.ok()) return Fail(options, kBadInput, calibration.status());
  uint64_t bytes = 0;
  uint64_t parameters = 0;
  for (const checkpoint::Kind& kind : kinds) {
    bytes += kind.bytes;
    parameters += kind.parameters;
  }
  if (options.json) {
    Json json = {{"command", "inspect"},
                 {"model", check.model},
                 {"model_type", model->model_type()},
                 {"shards", model->shards().size()},
                 {"tensors", model->tensors().size()},
                 {"parameters", parameters},
                 {"bytes", bytes},
                 {"profile", ProfileSaid(*model)}};
    json["kinds"] = JsonOf(kinds);
    json["input_scales"] = JsonOf(calibration->inputs);
    json["cache_scales"] = JsonOf(calibration->caches);
    for (const auto& [word, list] : odd) {
      json[word] = Json::array();
      for (const auto& u : *list) {
        json[word].push_back({{"module", u.module}, {"why", u.why}});
      }
    }
    json["notes"] = model->notes();
    json["exit_code"] = 0;
    PrintJson(json);
    return kOk;
  }
  const std::string type = model->model_type();
  fmt::print("{}: {}, {} tensors in {} file{}, {} parameters, {}\n",
             check.model, type.empty() ? "a model" : type,
             model->tensors().size(), model->shards().size(),
             model->shards().size() == 1 ? "" : "s", CountText(parameters),
             BytesText(bytes));
  std::vector<std::vector<std::string>> rows = {
      {"format", "dialect", "tensors", "parameters", "bytes", "bits each"}};
  for (const checkpoint::Kind& kind : kinds) {
    rows.push_back(
        {kind.format, kind.dialect, fmt::to_string(kind.tensors),
         fmt::to_string(kind.parameters), BytesText(kind.bytes),
         kind.parameters == 0
             ? ""
             : fmt::format("{:.3g}",
                           8.0 * static_cast<double>(kind.bytes) /
                               static_cast<double>(kind.parameters))});
  }
  PrintColumns(rows);
  for (const std::string& line : LinesOf(*calibration)) {
    fmt::print("{}\n", line);
  }
  const std::string profile =
      stored->weights.empty() ? std::string() : ProfileSaid(*model);
  if (!profile.empty()) {
    fmt::print("profile: {}, according to the metadata; check it with verify\n",
               profile);
  }
  if (const auto said = checkpoint::RotationOf(model->config());
      !said.empty()) {
    fmt::print("{}: weights are rotated, and engines rotate their inputs\n",
               said);
  }
  if (options.verbose) {
    for (const StoredWeight& w : stored->weights) {
      fmt::print("{} {}x{} {}\n", w.module, w.rows, w.cols, w.kind());
    }
  }
  for (const auto& [word, list] : odd) {
    for (const auto& u : *list) {
      fmt::print("{}: {}: {}\n", word, u.module, u.why);
    }
  }
  for (const std::string& note : model->notes()) fmt::print("note: {}\n", note);
  return kOk;
}

int RunVerify(const Options& options, const CheckOptions& check) {
  const auto model = OpenModel(check.model);
  if (!model.ok()) return Fail(options, kBadInput, model.status());
  const auto original = OpenModel(check.original);
  if (!original.ok()) return Fail(options, kBadInput, original.status());
  std::unique_ptr<ModelService> service;
  const int opened = ModelService::Open(options, kUsualMemoryMib, &service);
  if (opened != kOk) return opened;
  uint64_t total = 0;
  for (const auto& t : original->tensors()) total += t.stored.size;
  auto progress = std::make_unique<Progress>(total);
  const auto room = service->Allocate(service->pace().piece_bytes);
  if (!room.ok()) return Fail(options, CodeOf(room.status()), room.status());
  const auto result =
      VerifyModel(*original, *model, check.profile, room->bytes(),
                  service.get(), [&](size_t bytes) { progress->Add(bytes); });
  progress.reset();
  if (!result.ok()) {
    const absl::Status call = service->failure();
    return Fail(options, call.ok() ? kBadInput : CodeOf(call), result.status());
  }
  const int code =
      result->differing() == 0 && result->unmatched.empty() ? kOk : kFindings;
  if (options.json) {
    Json json = {
        {"command", "verify"},        {"model", check.model},
        {"original", check.original}, {"profile", result->profile},
        {"bytes", result->bytes()},   {"differing", result->differing()}};
    json["tensors"] = Json::array();
    for (const auto& p : result->parts) {
      json["tensors"].push_back(
          {{"name", p.name}, {"bytes", p.bytes}, {"differing", p.differing}});
    }
    json["unmatched"] = result->unmatched;
    json["exit_code"] = code;
    PrintJson(json);
    return code;
  }
  for (const auto& p : result->parts) {
    if (p.differing == 0 && !options.verbose) continue;
    fmt::print("{}: {} of {} bytes differ\n", p.name, p.differing, p.bytes);
  }
  for (const std::string& name : result->unmatched) {
    fmt::print("{}\n", name);
  }
  fmt::print(
      "total: {} of {} bytes of quantized weights differ from a conversion "
      "with profile {}; 'quantctl compare' compares the other tensors\n",
      result->differing(), result->bytes(), result->profile);
  return code;
}

int RunCompare(const Options& options, const CheckOptions& check) {
  const bool own = OpenOwn(check.model) || OpenOwn(check.other);
  absl::StatusOr<Model> a = Model();
  absl::StatusOr<Model> b = Model();
  if (!own) a = OpenModel(check.model);
  if (!own && a.ok()) b = OpenModel(check.other);
  for (const auto* model : {&a, &b}) {
    if (!model->ok()) return Fail(options, kBadInput, model->status());
  }
  if (!check.report.empty()) {
    const auto s = own ? absl::UnimplementedError(
                             "--report needs models in directories or files "
                             "that convert reads; compare this file without it")
                       : PrepareReport(check.report);
    if (!s.ok()) return Fail(options, own ? kUsage : kCannotWrite, s);
  }
  const auto result =
      own ? CompareOwn(check.model, check.other) : CompareModels(*a, *b);
  if (!result.ok()) return Fail(options, kBadInput, result.status());
  if (!check.report.empty()) {
    const auto s = WriteReport(check.report, *a, *b, *result, {});
    if (!s.ok()) return Fail(options, kCannotWrite, s);
  }
  const auto summary = SummaryOf(*result, check.fail_below);
  const size_t untold = result->only_a.size() + result->not_compared.size() +
                        TensorsAdded(*result);
  // Missing and added tensors are errors, too.
  const bool bad = result->tensors.empty() || summary.below > 0 || untold > 0;
  const int code = bad ? kFindings : kOk;
  if (options.json) {
    Json json = {
        {"command", "compare"}, {"a", check.model}, {"b", check.other}};
    json["tensors"] = Json::array();
    for (const TensorDifference& d : result->tensors) {
      Json row = {{"name", d.name},
                  {"a", d.kind_a},
                  {"b", d.kind_b},
                  {"shape", {d.rows, d.cols}},
                  {"equal", d.equal()},
                  {"sqnr_db", d.sqnr_db},
                  {"usual_db", UsualDb(d)},
                  {"least_db", check.fail_below.value_or(LeastDb(d))},
                  {"below", IsBelow(d, check.fail_below)},
                  {"cosine", d.cosine},
                  {"max_error", d.max_error},
                  {"not_finite", d.not_finite},
                  {"altered", d.altered},
                  {"wrong", d.wrong},
                  {"worst_row", d.worst_row},
                  {"worst_row_db", d.worst_row_db}};
      if (d.same_layout) {
        row["code_bytes"] = d.code_bytes;
        row["differing_code_bytes"] = d.differing_code_bytes;
        row["scales"] = d.scales;
        row["differing_scales"] = d.differing_scales;
      }
      json["tensors"].push_back(std::move(row));
    }
    json["only_a"] = result->only_a;
    json["only_b"] = result->only_b;
    json["not_compared"] = Json::array();
    for (const auto& n : result->not_compared) {
      json["not_compared"].push_back({{"name", n.name}, {"why", n.why}});
    }
    json["sqnr_db"] = WholeDb(*result);
    json["verdict"] = VerdictText(*result, check.fail_below);
    json["exit_code"] = code;
    PrintJson(json);
    return code;
  }
  std::vector<std::vector<std::string>> rows = {
      {"tensor", "MODEL", "OTHER", "SQNR dB", "cosine", "max error",
       "bytes differ", "scales differ"}};
  for (const TensorDifference& d : result->tensors) {
    if (d.equal() && !options.verbose) continue;
    rows.push_back({d.name, d.kind_a, d.kind_b, Decibel(d),
                    d.not_finite > 0 ? "NaN" : fmt::format("{:.6f}", d.cosine),
                    fmt::format("{:.4g}", d.max_error), BytesOf(d),
                    ScalesOf(d)});
  }
  if (rows.size() > 1) PrintColumns(rows);
  for (const auto& [only, name] : {std::pair(&result->only_a, &check.model),
                                   std::pair(&result->only_b, &check.other)}) {
    if (only->empty()) continue;
    fmt::print("only in {}: {} tensors, for example {}\n", *name, only->size(),
               only->front());
  }
  for (const auto& n : result->not_compared) {
    fmt::print("not compared: {}: {}\n", n.name, n.why);
    if (!options.verbose) break;
  }
  fmt::print("total: {} tensors equal, {} differ", summary.equal,
             summary.differing);
  const size_t alone = result->only_a.size() + result->only_b.size() +
                       result->not_compared.size();
  if (alone > 0) fmt::print(", {} not compared", alone);
  if (const TensorDifference* worst = summary.worst) {
    fmt::print("; SQNR {:.2f} dB on average, {:.2f} dB at least ({})",
               summary.mean_db, worst->sqnr_db, worst->name);
    fmt::print(", {:.2f} dB over all values", WholeDb(*result));
  }
  fmt::print("\n{} {}\n",
             Painted(stdout, bad ? Colour::kRed : Colour::kGreen, "verdict:"),
             VerdictText(*result, check.fail_below));
  if (!check.report.empty()) fmt::print("wrote {}/report.html\n", check.report);
  return code;
}

}  // namespace quantd::quantctl
