#include "client/checkpoint/report/report.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/lint/lint.h"
#include "client/checkpoint/names.h"
#include "client/checkpoint/report/verdict.h"
#include "client/checkpoint/stored.h"
#include "client/checkpoint/weight_values.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// The most columns of the heat map that are readable.
constexpr size_t kMostColumns = 40;

std::string BaseName(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

uint64_t BytesOf(const std::vector<Kind>& kinds) {
  uint64_t sum = 0;
  for (const Kind& k : kinds) sum += k.bytes;
  return sum;
}

class Reporter {
 public:
  Reporter(const Model& b, const StoredModel& stored, Report* report)
      : b_(b), stored_(stored), report_(*report) {}

  absl::Status Fill(ModelDifference difference) {
    for (const StoredWeight& w : stored_.weights) {
      weights_[w.module] = &w;
      auto codes = CountScales(b_, w);
      if (!codes.ok()) return codes.status();
      scales_[w.module] = *codes;
    }
    if (auto s = FindGroups(); !s.ok()) return s;
    report_.verdict = VerdictText(difference);
    report_.summary = SummaryOf(difference);
    report_.summary.worst = nullptr;  // its target is moved below
    for (TensorDifference& d : difference.tensors) {
      if (d.equal()) continue;
      amaxes_[d.name] = d.amax;
      report_.changed.push_back({std::move(d), 0, std::nullopt, ""});
    }
    std::ranges::stable_sort(report_.changed, [](const auto& x, const auto& y) {
      return x.difference.sqnr_db < y.difference.sqnr_db;
    });
    for (ChangedTensor& t : report_.changed) Explain(&t);
    DrawHeat();
    CountHistograms();
    return absl::OkStatus();
  }

 private:
  const StoredWeight* WeightOf(const std::string& name) const {
    auto found = weights_.find(name);
    // The tensor may be an expert of a stack.
    if (found == weights_.end()) {
      found = weights_.find(name.substr(0, name.rfind('.')));
    }
    return found == weights_.end() ? nullptr : found->second;
  }

  absl::Status FindGroups() {
    const auto architecture = Architecture::Of(b_, {});
    if (!architecture.ok()) return architecture.status();
    std::map<std::string, std::vector<const StoredWeight*>> fused;
    for (const StoredWeight& w : stored_.weights) {
      if (!NeedsAmax(*w.layout)) continue;
      const auto key = architecture->FusionKey(w.module, w.cols);
      if (!key.empty()) fused[key].push_back(&w);
    }
    for (const auto& [key, weights] : fused) {
      if (weights.size() < 2) continue;
      ReportGroup group;
      std::set<float> globals;
      for (const StoredWeight* w : weights) {
        group.modules.push_back(w->module);
        group_of_[w->module] = report_.groups.size();
        const ModelTensor* part = w->part(PartSource::kGlobal);
        if (part == nullptr) part = w->part(PartSource::kScales);
        const auto numbers = ReadNumbers(b_, *part);
        if (!numbers.ok()) return numbers.status();
        if (numbers->size() == 1) globals.insert(numbers->front());
      }
      if (globals.size() == 1) group.global = *globals.begin();
      report_.groups.push_back(std::move(group));
    }
    return absl::OkStatus();
  }

  void Explain(ChangedTensor* t) {
    const TensorDifference& d = t->difference;
    const StoredWeight* w = WeightOf(d.name);
    Surroundings around;
    if (w != nullptr) {
      t->bits = 8.0 * static_cast<double>(w->size_bytes()) /
                static_cast<double>(w->experts * w->rows * w->cols);
      t->scales = scales_[w->module];
      around.layout = w->layout;
      around.scales = &*t->scales;
      if (const auto found = group_of_.find(w->module);
          found != group_of_.end()) {
        for (const std::string& m : report_.groups[found->second].modules) {
          if (amaxes_[m] <= around.group_amax) continue;
          around.group_amax = amaxes_[m];
          around.largest = m;
        }
      }
    }
    t->why = CauseOf(d, around);
  }

  void DrawHeat() {
    std::set<std::string> stacks;
    std::set<std::string> columns;
    std::map<std::pair<std::string, int64_t>, std::map<std::string, HeatCell>>
        rows;
    for (const ChangedTensor& t : report_.changed) {
      const TensorDifference& d = t.difference;
      const Place place = PlaceOf(d.name);
      HeatCell& cell = rows[{place.stack, place.layer}][place.name];
      columns.insert(place.name);
      if (place.layer >= 0) stacks.insert(place.stack);
      const double usual = UsualDb(d);
      const bool below = IsBelow(d);
      if (cell.tensors++ > 0 &&
          std::pair(!cell.below, cell.sqnr_db - cell.usual_db) <=
              std::pair(!below, d.sqnr_db - usual)) {
        continue;
      }
      cell.sqnr_db = d.sqnr_db;
      cell.usual_db = usual;
      cell.below = below;
      cell.worst = d.name;
    }
    for (const std::string& c : columns) {
      if (report_.heat_columns.size() < kMostColumns) {
        report_.heat_columns.push_back(c);
      }
    }
    for (const auto& [key, cells] : rows) {
      const auto& [stack, layer] = key;
      HeatRow row;
      row.layer = layer < 0           ? "no layer"
                  : stacks.size() < 2 ? fmt::to_string(layer)
                                      : fmt::format("{}.{}", stack, layer);
      for (const std::string& c : report_.heat_columns) {
        const auto found = cells.find(c);
        row.cells.push_back(found == cells.end()
                                ? std::nullopt
                                : std::optional<HeatCell>(found->second));
      }
      report_.heat.push_back(std::move(row));
    }
  }

  void CountHistograms() {
    std::map<std::pair<std::string, std::string>, ScaleCodes> all;
    for (const StoredWeight& w : stored_.weights) {
      const ScaleCodes& codes = scales_[w.module];
      ScaleCodes& sum = all[{w.kind(), PlaceOf(w.module).name}];
      sum.kind = codes.kind;
      sum.Add(codes);
    }
    for (const auto& [key, codes] : all) {
      if (report_.histograms.size() >= kMostColumns) break;
      report_.histograms.push_back({key.first, key.second, codes});
    }
  }

  const Model& b_;
  const StoredModel& stored_;
  Report& report_;
  std::map<std::string, const StoredWeight*> weights_;
  std::map<std::string, ScaleCodes> scales_;
  std::map<std::string, size_t> group_of_;
  std::map<std::string, double> amaxes_;
};

Json TensorJson(const ChangedTensor& t) {
  const TensorDifference& d = t.difference;
  Json out = {{"name", d.name},
              {"a", d.kind_a},
              {"b", d.kind_b},
              {"shape", {d.rows, d.cols}},
              {"sqnr_db", d.sqnr_db},
              {"usual_db", UsualDb(d)},
              {"below", IsBelow(d)},
              {"cosine", d.cosine},
              {"max_error", d.max_error},
              {"amax", d.amax},
              {"rms", d.rms},
              {"became_zero", d.lost},
              {"not_finite", d.not_finite},
              {"why", t.why}};
  if (t.bits > 0) out["bits_each"] = t.bits;
  if (t.scales) {
    out["median_scale_code"] = t.scales->median();
    out["subnormal_scales"] = t.scales->subnormal_share();
    out["zero_scales"] = t.scales->zero_share();
  }
  return out;
}

}  // namespace

absl::StatusOr<Report> MakeReport(const Model& a, const Model& b,
                                  ModelDifference difference,
                                  const std::vector<std::string>& notes) {
  const auto stored_a = FindStored(a);
  if (!stored_a.ok()) return stored_a.status();
  const auto stored_b = FindStored(b);
  if (!stored_b.ok()) return stored_b.status();
  Report report;
  report.a = a.path();
  report.b = b.path();
  report.title = BaseName(b.path());
  report.version = QUANTD_VERSION;
  report.profile = ProfileSaid(b);
  report.kinds_a = InventoryOf(a, *stored_a);
  report.kinds_b = InventoryOf(b, *stored_b);
  const auto calibration = CalibrationOf(b, *stored_b);
  if (!calibration.ok()) return calibration.status();
  report.calibration = *calibration;
  report.bytes_a = BytesOf(report.kinds_a);
  report.bytes_b = BytesOf(report.kinds_b);
  report.warnings = notes;
  for (const auto& [only, path] : {std::pair(&difference.only_a, &report.a),
                                   std::pair(&difference.only_b, &report.b)}) {
    if (only->empty()) continue;
    report.warnings.push_back(
        fmt::format("only in {}: {} tensors, for example {}", *path,
                    only->size(), only->front()));
  }
  for (const NotCompared& n : difference.not_compared) {
    report.warnings.push_back(
        fmt::format("not compared: {}: {}", n.name, n.why));
  }
  const auto findings = Lint(b, stored_a->weights.empty() ? &a : nullptr);
  if (!findings.ok()) return findings.status();
  for (const Finding& f : findings->findings) {
    if (f.rule == kNothing) continue;
    report.warnings.push_back(fmt::format("lint: {}: {}", f.rule, TextOf(f)));
  }
  if (auto s = Reporter(b, *stored_b, &report).Fill(std::move(difference));
      !s.ok()) {
    return s;
  }
  return report;
}

Json JsonOf(const Report& r) {
  Json out = {{"a", r.a},
              {"b", r.b},
              {"version", r.version},
              {"profile", r.profile},
              {"bytes_a", r.bytes_a},
              {"bytes_b", r.bytes_b},
              {"kinds_a", JsonOf(r.kinds_a)},
              {"kinds_b", JsonOf(r.kinds_b)},
              {"input_scales", JsonOf(r.calibration.inputs)},
              {"cache_scales", JsonOf(r.calibration.caches)},
              {"equal", r.summary.equal},
              {"verdict", r.verdict},
              {"below", r.summary.below},
              {"warnings", r.warnings}};
  if (!r.changed.empty()) {
    out["mean_sqnr_db"] = r.summary.mean_db;
    out["least_sqnr_db"] = r.changed.front().difference.sqnr_db;
  }
  out["tensors"] = Json::array();
  for (const ChangedTensor& t : r.changed) {
    out["tensors"].push_back(TensorJson(t));
  }
  out["scale_codes"] = Json::array();
  for (const Histogram& h : r.histograms) {
    out["scale_codes"].push_back({{"format", h.format},
                                  {"module", h.name},
                                  {"kind", Name(h.codes.kind)},
                                  {"counts", h.codes.counts}});
  }
  out["groups"] = Json::array();
  for (const ReportGroup& g : r.groups) {
    Json group = {{"modules", g.modules}};
    if (g.global) group["scale"] = *g.global;
    out["groups"].push_back(std::move(group));
  }
  return out;
}

}  // namespace quantd::checkpoint
