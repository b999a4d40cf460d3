#include "client/files/quantized_description.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "client/files/sign_mask_text.h"

namespace quantd::client {
namespace {

using nlohmann::json;

// Most descriptions have about 300 bytes. A list of splits is the longest part.
constexpr size_t kMaxDescription = 2 << 20;

json DescribeRht(const RhtOptions& rht) {
  const SignMask mask = rht.sign_mask.value_or(DefaultSignMask(rht.dimension));
  return {{"rowwise", rht.rowwise},
          {"columnwise", rht.columnwise},
          {"dimension", rht.dimension},
          {"sign_mask", SignMaskToHex(mask, rht.dimension)}};
}

// Reads the fields of a JSON object. ok() is false after a required field was
// missing or had the wrong type.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}
  bool ok() const { return ok_; }
  void Refuse() { ok_ = false; }

  bool Has(const char* key) const { return object_.contains(key); }
  std::string Text(const char* key) {
    const json* v = Find(key);
    if (v == nullptr || !v->is_string()) return Fail(std::string());
    return v->get<std::string>();
  }
  bool Flag(const char* key) {
    const json* v = Find(key);
    if (v == nullptr || !v->is_boolean()) return Fail(false);
    return v->get<bool>();
  }
  int Small(const char* key) {
    const json* v = Find(key);
    if (v == nullptr || !v->is_number_integer()) return Fail(0);
    const auto value = v->get<int64_t>();
    if (value < -1000 || value > 1000) return Fail(0);
    return static_cast<int>(value);
  }
  uint64_t Unsigned(const char* key) {
    const json* v = Find(key);
    if (v == nullptr || !v->is_number_unsigned()) return Fail(uint64_t{0});
    return v->get<uint64_t>();
  }
  float Number(const char* key) {
    const json* v = Find(key);
    if (v == nullptr || !v->is_number()) return Fail(0.0f);
    // Read as double, which represents every fp32 number exactly.
    const double value = v->get<double>();
    if (!(std::fabs(value) <= std::numeric_limits<float>::max())) {
      return Fail(0.0f);
    }
    return static_cast<float>(value);
  }
  std::vector<int64_t> Sizes(const char* key) {
    const json* v = Find(key);
    if (v == nullptr || !v->is_array()) return Fail(std::vector<int64_t>());
    std::vector<int64_t> sizes;
    for (const json& d : *v) {
      if (!d.is_number_unsigned()) return Fail(sizes);
      // Values from 2^63 become negative. MakeQuantizePlan refuses those.
      sizes.push_back(static_cast<int64_t>(d.get<uint64_t>()));
    }
    return sizes;
  }
  template <typename T>
  T Parsed(std::optional<T> value) {
    return value ? *value : Fail(T{});
  }

 private:
  const json* Find(const char* key) {
    const auto it = object_.find(key);
    return it == object_.end() ? nullptr : &*it;
  }
  template <typename T>
  T Fail(T value) {
    Refuse();
    return value;
  }
  const json& object_;
  bool ok_ = true;
};

RhtOptions ParseRht(Fields* f) {
  RhtOptions rht;
  rht.rowwise = f->Flag("rowwise");
  rht.columnwise = f->Flag("columnwise");
  rht.dimension = f->Small("dimension");
  // A mask is only meaningful for a dimension that can be legal.
  if (rht.dimension < 16 || rht.dimension > 128) {
    f->Refuse();
    return rht;
  }
  const std::string mask = f->Text("sign_mask");
  // Describe writes all digits of the mask, with leading zeros.
  if (mask.size() != 2 + static_cast<size_t>(rht.dimension) / 4) f->Refuse();
  rht.sign_mask = f->Parsed(SignMaskFromHex(mask, rht.dimension));
  // Nothing rotates, so the mask and the dimension are not kept.
  if (!rht.rowwise && !rht.columnwise) return {};
  return rht;
}

// Parses keys that did not exist in version 1.
void ParseOptions(Fields* f, QuantizeOptions* o) {
  if (f->Has("compact_scales")) {
    o->form.compact_scales = f->Flag("compact_scales");
  }
  if (f->Has("row_scaled")) o->form.row_scaled = f->Flag("row_scaled");
  if (f->Has("scale_256")) o->form.scale_256 = f->Flag("scale_256");
  if (f->Has("splits")) o->splits = f->Sizes("splits");
  if (f->Has("partial_splits")) {
    o->partial_splits = f->Flag("partial_splits");
  }
  if (f->Has("rounding")) {
    o->rounding = f->Parsed(ParseRounding(f->Text("rounding")));
  }
  if (f->Has("seed")) o->stochastic.seed = f->Unsigned("seed");
  if (f->Has("seed_offset")) {
    o->stochastic.seed_offset = f->Unsigned("seed_offset");
  }
  if (f->Has("shard")) {
    const std::vector<int64_t> shard = f->Sizes("shard");
    if (shard.size() == 3) {
      o->shard = {shard[0], shard[1], shard[2]};
    } else {
      f->Refuse();
    }
  }
  if (f->Has("four_over_six")) {
    o->nvfp4.four_over_six =
        f->Parsed(ParseFourOverSix(f->Text("four_over_six")));
  }
  if (f->Has("fast_error")) o->nvfp4.fast_error = f->Flag("fast_error");
  if (f->Has("amax_estimation_scale")) {
    o->nvfp4.amax_estimation_scale = f->Number("amax_estimation_scale");
  }
  if (f->Has("epsilon")) o->fp8.epsilon = f->Number("epsilon");
  if (f->Has("power_of_two")) o->fp8.power_of_two = f->Flag("power_of_two");
  if (f->Has("scale_rule")) {
    o->mx.scale_rule = f->Parsed(ParseScaleRule(f->Text("scale_rule")));
  }
  if (f->Has("profile")) {
    o->profile = f->Parsed(ParseProfile(f->Text("profile")));
  }
  if (f->Has("amax")) o->want_amax = f->Flag("amax");
  if (f->Has("dbias")) {
    o->dbias = true;
    o->dbias_dtype = f->Parsed(ParseDType(f->Text("dbias")));
  }
}

}  // namespace

std::string Describe(const QuantizedDescription& d) {
  const QuantizeOptions& o = d.options;
  json j = {{"format", Name(o.format)},
            {"shape", d.tensor.shape},
            {"dtype", Name(d.tensor.dtype)},
            {"flatten_axis", d.tensor.flatten_axis},
            {"usage", Name(o.usage)},
            {"rht", DescribeRht(o.rht)},
            {"non_finite", Name(o.non_finite)},
            {"scale_layout", Name(o.form.scale_layout)}};
  if (o.form.compact_scales) j["compact_scales"] = true;
  if (o.form.row_scaled) j["row_scaled"] = true;
  if (o.form.scale_256) j["scale_256"] = true;
  if (o.splits) j["splits"] = *o.splits;
  if (o.partial_splits) j["partial_splits"] = true;
  if (o.rounding != Rounding::kNearest) {
    j["rounding"] = Name(o.rounding);
    j["seed"] = o.stochastic.seed;
    j["seed_offset"] = o.stochastic.seed_offset;
    j["shard"] = {o.shard.row_offset, o.shard.column_offset,
                  o.shard.total_columns};
  }
  if (o.nvfp4.four_over_six != FourOverSix::kOff) {
    j["four_over_six"] = Name(o.nvfp4.four_over_six);
  }
  if (o.nvfp4.fast_error) j["fast_error"] = true;
  if (o.nvfp4.amax_estimation_scale) {
    j["amax_estimation_scale"] = *o.nvfp4.amax_estimation_scale;
  }
  if (o.fp8.epsilon != 0) j["epsilon"] = o.fp8.epsilon;
  if (o.fp8.power_of_two) j["power_of_two"] = *o.fp8.power_of_two;
  const ScaleRule rule = o.mx.scale_rule.value_or(ScaleRule::kUp);
  if (rule != ScaleRule::kUp || o.profile != Profile::kTe) {
    if (o.mx.scale_rule) j["scale_rule"] = Name(rule);
  }
  if (o.profile != Profile::kTe) j["profile"] = Name(o.profile);
  if (o.want_amax) j["amax"] = true;
  if (o.dbias) {
    j["dbias"] = Name(o.dbias_dtype == DType::kUnspecified ? d.tensor.dtype
                                                           : o.dbias_dtype);
  }
  return j.dump();
}

absl::StatusOr<QuantizedDescription> ParseDescription(const std::string& text) {
  const auto bad = [] {
    return absl::InvalidArgumentError(
        "its description in the metadata is malformed");
  };
  if (text.size() > kMaxDescription) return bad();
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("rht") ||
      !object["rht"].is_object()) {
    return bad();
  }
  QuantizedDescription d;
  Fields f(object);
  d.options.format = f.Parsed(ParseFormat(f.Text("format")));
  d.tensor.shape = f.Sizes("shape");
  d.tensor.dtype = f.Parsed(ParseDType(f.Text("dtype")));
  d.tensor.flatten_axis = f.Small("flatten_axis");
  d.options.usage = f.Parsed(ParseUsage(f.Text("usage")));
  d.options.non_finite = f.Parsed(ParseNonFinite(f.Text("non_finite")));
  d.options.form.scale_layout = f.Parsed(ParseLayout(f.Text("scale_layout")));
  ParseOptions(&f, &d.options);
  Fields rht(object["rht"]);
  d.options.rht = ParseRht(&rht);
  if (!f.ok() || !rht.ok()) return bad();
  return d;
}

}  // namespace quantd::client
