// Implements JsonOf.

#include "client/checkpoint/report/report.h"
#include "client/checkpoint/report/verdict.h"

namespace quantd::checkpoint {
namespace {

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
