#include "tests/kernels/device/plan_rows.h"

#include "fmt/format.h"
#include "kernels/plan/amax_source.h"

namespace quantd {
namespace {

constexpr int64_t kRows = 256;
constexpr int64_t kCols = 512;
constexpr DType kFloats[] = {DType::kBF16, DType::kF16, DType::kF32};

// Groups: one without rows, and two with half of the rows each.
std::vector<int64_t> SplitsOf(int64_t rows) {
  return {0, rows / 2, rows - rows / 2};
}

TensorDesc Tensor(DType dtype, int64_t rows = kRows, int64_t cols = kCols) {
  return {.dtype = dtype, .shape = {rows, cols}};
}

Setting Simply(std::string name, void (*set)(QuantizeOptions&)) {
  return {.name = std::move(name),
          .set = [set](TensorDesc&, QuantizeOptions& o) { set(o); }};
}

// Rotates both copies, or one of them.
Setting Rotate(int dimension, bool rowwise, bool columnwise) {
  const bool both = rowwise && columnwise;
  return {.name = fmt::format("rht {}{}", dimension,
                              both      ? ""
                              : rowwise ? " of rows"
                                        : " of columns"),
          .set = [=](TensorDesc&, QuantizeOptions& o) {
            // If only one copy is made, the setting for both copies is enough.
            // The other settings then clear the format, which makes the plan
            // illegal.
            if (!both && o.usage != Usage::kBoth) o.format = Format{};
            o.rht.rowwise = rowwise && HasRowwise(o.usage);
            o.rht.columnwise = columnwise && HasColumnwise(o.usage);
            o.rht.dimension = dimension;
          }};
}

Setting ShapeOf(std::string name, int64_t rows, int64_t cols) {
  return {.name = std::move(name),
          .set = [=](TensorDesc& t, QuantizeOptions& o) {
            t.shape = {rows, cols};
            if (o.splits) o.splits = SplitsOf(rows);
          }};
}

// Gives one amax for each group, or for each line if the format has amaxes of
// lines.
void GiveAmax(const TensorDesc& t, bool columnwise, QuantizeOptions* o) {
  const size_t groups = o->splits ? o->splits->size() : 1;
  const auto lines = static_cast<size_t>(t.shape[columnwise]);
  const size_t each = columnwise ? groups * lines : lines;
  // (Rotate may have cleared the format.)
  const FormatSpec* format = FindFormat(o->format);
  const bool lines_of = format && HasAmaxOfLines(*format, o->form);
  (columnwise ? o->columnwise_amax : o->rowwise_amax)
      .assign(lines_of ? each : groups, columnwise ? 5.0f : 3.0f);
}

// Settings to combine: a combination has at most one setting of each list.
using Choices = std::vector<std::vector<Setting>>;

void Combine(const Choices& choices, size_t from, size_t most,
             std::vector<const Setting*>* taken,
             const std::function<void()>& fn) {
  fn();
  if (most == 0) return;
  for (size_t i = from; i < choices.size(); ++i) {
    for (const Setting& setting : choices[i]) {
      taken->push_back(&setting);
      Combine(choices, i + 1, most - 1, taken, fn);
      taken->pop_back();
    }
  }
}

std::vector<Setting> WaysOf(Option option) {
  switch (option) {
    case kOptRht: {
      std::vector<Setting> all;
      for (int dimension : kRhtDimensions) {
        all.push_back(Rotate(dimension, true, true));
        all.push_back(Rotate(dimension, true, false));
        all.push_back(Rotate(dimension, false, true));
      }
      return all;
    }
    case kOptStochastic:
      return {Simply("stochastic",
                     [](QuantizeOptions& o) {
                       o.rounding = Rounding::kStochastic;
                     }),
              Simply("stochastic, shard at column 24", [](QuantizeOptions& o) {
                o.rounding = Rounding::kStochastic;
                o.shard.column_offset = 24;
              })};
    case kOptRowScaled:
      return {Simply("row_scaled",
                     [](QuantizeOptions& o) { o.form.row_scaled = true; })};
    case kOptFourOverSix:
      return {Simply("four_over_six mae",
                     [](QuantizeOptions& o) {
                       o.nvfp4.four_over_six = FourOverSix::kMae;
                     }),
              Simply("four_over_six mse, scale_256", [](QuantizeOptions& o) {
                o.nvfp4.four_over_six = FourOverSix::kMse;
                o.form.scale_256 = true;
              })};
    case kOptScaleSearch:
      return {Simply("scale_search",
                     [](QuantizeOptions& o) { o.nvfp4.scale_search = true; })};
    case kOptSwizzled:
      return {Simply("swizzled", [](QuantizeOptions& o) {
        o.form.scale_layout = Layout::kSwizzled;
      })};
    case kOptCompact:
      return {Simply("compact",
                     [](QuantizeOptions& o) { o.form.compact_scales = true; })};
    case kOptGivenAmax:
      return {{.name = "given_amax",
               .set =
                   [](TensorDesc& t, QuantizeOptions& o) {
                     if (HasRowwise(o.usage)) GiveAmax(t, false, &o);
                     if (HasColumnwise(o.usage)) GiveAmax(t, true, &o);
                   }},
              {.name = "given_amax of rows",
               .set = [](TensorDesc& t, QuantizeOptions& o) {
                 GiveAmax(t, false, &o);
               }}};
    case kOptEstimation:
      return {Simply("estimation", [](QuantizeOptions& o) {
        o.nvfp4.amax_estimation_scale = 2.0f;
        if (!o.rht.rowwise && !o.rht.columnwise) {
          o.rht.rowwise = HasRowwise(o.usage);
          o.rht.columnwise = HasColumnwise(o.usage);
        }
      })};
    case kOptEpsilon:
      return {
          Simply("epsilon", [](QuantizeOptions& o) { o.fp8.epsilon = 0.01f; })};
    case kOptPowerOfTwo:
      return {Simply("power_of_two",
                     [](QuantizeOptions& o) { o.fp8.power_of_two = true; }),
              Simply("power_of_two no",
                     [](QuantizeOptions& o) { o.fp8.power_of_two = false; })};
    case kOptGivenScale:
      return {Simply("given_scale", [](QuantizeOptions& o) {
        o.fp8.scale.assign(o.splits ? o.splits->size() : 1, 2.0f);
      })};
    case kOptHistory:
      return {Simply("history", [](QuantizeOptions& o) {
        const size_t n = o.splits ? o.splits->size() : 1;
        o.fp8.scale.assign(n, 2.0f);
        o.fp8.history = HistoryOptions{.amax = std::vector<float>(4 * n, 1.0f)};
      })};
    case kOptScaleRule:
      return {Simply("scale_rule floor",
                     [](QuantizeOptions& o) {
                       o.mx.scale_rule = ScaleRule::kFloor;
                     }),
              Simply("scale_rule ceil",
                     [](QuantizeOptions& o) {
                       o.mx.scale_rule = ScaleRule::kCeil;
                     }),
              Simply("scale_rule even", [](QuantizeOptions& o) {
                o.mx.scale_rule = ScaleRule::kEven;
              })};
    case kOptGrouped:
      return {{.name = "grouped", .set = [](TensorDesc& t, QuantizeOptions& o) {
                 o.splits = SplitsOf(t.shape[0]);
               }}};
    case kOptDbias:
      return {Simply("dbias", [](QuantizeOptions& o) { o.dbias = true; })};
    case kOptStatistics:
      return {Simply("statistics",
                     [](QuantizeOptions& o) { o.statistics = true; })};
    case kOptProfile:
      return {Simply("profile", [](QuantizeOptions& o) {
        o.profile = Profile::kModelopt047;
      })};
    case kOptAlways:
      break;
  }
  return {};
}

}  // namespace

std::vector<Setting> SettingsOf(Option option) {
  std::vector<Setting> settings = WaysOf(option);
  for (Setting& setting : settings) setting.option = option;
  return settings;
}

std::vector<Setting> Shapes() {
  return {ShapeOf("K = 8 mod 16", kRows, 520),
          ShapeOf("K = 4 mod 8", kRows, 516),
          ShapeOf("2^31 rows", int64_t{1} << 31, 16),
          ShapeOf("2^31 columns of chunks", kRows, int64_t{1} << 30),
          ShapeOf("2^32 columns of chunks", kRows, int64_t{1} << 31)};
}

void ForQuantizeRows(size_t settings,
                     const std::function<void(const QuantizeRow&)>& fn) {
  Choices choices;
  // Groups come first, because later settings depend on the number of groups.
  choices.push_back(SettingsOf(kOptGrouped));
  for (const OptionSpec& spec : Options()) {
    if (spec.option != kOptGrouped) choices.push_back(SettingsOf(spec.option));
  }
  choices.push_back(Shapes());
  std::vector<const Setting*> taken;
  for (const FormatSpec& format : kFormats) {
    Combine(choices, 0, settings, &taken, [&] {
      for (const Usage usage : kUsages) {
        for (const DType dtype : kFloats) {
          TensorDesc tensor = Tensor(dtype);
          QuantizeOptions o;
          o.format = format.format;
          o.usage = usage;
          o.want_amax = usage == Usage::kNone;
          std::string name;
          uint32_t wanted = 0;
          for (const Setting* setting : taken) {
            setting->set(tensor, o);
            wanted |= setting->option;
            name += (name.empty() ? "" : " + ") + setting->name;
          }
          // Skips settings without effect, such as rotating a copy that is
          // not made.
          const uint32_t used = UsedOptions(o);
          if ((used & wanted) != wanted) continue;
          const absl::StatusOr<Plan> plan = MakeQuantizePlan(tensor, o);
          if (!plan.ok()) continue;
          fn({name.empty() ? "none" : name, used, format, usage, dtype, *plan});
        }
      }
    });
  }
}

void ForDequantizeRows(const std::function<void(const PlanRow&)>& fn) {
  struct Form {
    std::string name;
    CopyForm form;
  };
  const Form kForms[] = {
      {"", {}},
      {", swizzled", {.scale_layout = Layout::kSwizzled}},
      {", compact", {.compact_scales = true}},
      {", row_scaled", {.row_scaled = true}},
      {", scale_256", {.scale_256 = true}},
  };
  constexpr int kDimensions[] = {0, 16, 32, 64, 128};
  for (const FormatSpec& format : kFormats) {
    for (const Form& form : kForms) {
      for (const Usage usage : {Usage::kRowwise, Usage::kColumnwise}) {
        for (const int dimension : kDimensions) {
          for (const bool grouped : {false, true}) {
            for (const DType dtype : kFloats) {
              DequantizeOptions o;
              o.format = format.format;
              o.usage = usage;
              o.output = dtype;
              o.form = form.form;
              o.inverse_rht = dimension != 0;
              if (o.inverse_rht) o.rht_dimension = dimension;
              if (grouped) o.splits = SplitsOf(kRows);
              const absl::StatusOr<Plan> plan =
                  MakeDequantizePlan(Tensor(DType::kUnspecified), o);
              if (!plan.ok()) continue;
              const std::string rht =
                  o.inverse_rht ? fmt::format(", rht {}", dimension) : "";
              fn({fmt::format("{}{}{}{}", Name(usage), rht, form.name,
                              grouped ? ", grouped" : ""),
                  std::string(format.name), dtype, *plan});
            }
          }
        }
      }
    }
  }
}

void ForRhtAmaxRows(const std::function<void(const PlanRow&)>& fn) {
  constexpr const char* kKinds[] = {"rowwise", "rowwise_rht", "columnwise",
                                    "columnwise_rht"};
  for (unsigned kinds = 1; kinds < 16; ++kinds) {
    for (const int dimension : kRhtDimensions) {
      for (const AmaxDomain domain : {AmaxDomain::kTensor, AmaxDomain::kRow}) {
        for (const int64_t cols : {kCols, kCols + 8}) {
          for (const bool grouped : {false, true}) {
            for (const DType dtype : kFloats) {
              RhtAmaxOptions o;
              o.rowwise = kinds & 1;
              o.rowwise_rht = kinds & 2;
              o.columnwise = kinds & 4;
              o.columnwise_rht = kinds & 8;
              o.rht_dimension = dimension;
              o.domain = domain;
              if (grouped) o.splits = SplitsOf(kRows);
              const absl::StatusOr<Plan> plan =
                  MakeRhtAmaxPlan(Tensor(dtype, kRows, cols), o);
              if (!plan.ok()) continue;
              std::string name;
              for (int k = 0; k < 4; ++k) {
                if ((kinds >> k & 1) == 0) continue;
                name += (name.empty() ? "" : ", ") + std::string(kKinds[k]);
              }
              if (o.rowwise_rht || o.columnwise_rht) {
                name += fmt::format(", rht {}", dimension);
              }
              if (domain == AmaxDomain::kRow) name += ", of each row";
              if (cols != kCols) name += ", K = 8 mod 16";
              if (grouped) name += ", grouped";
              fn({name, "", dtype, *plan});
            }
          }
        }
      }
    }
  }
}

void ForApplyRhtRows(const std::function<void(const PlanRow&)>& fn) {
  for (const int dimension : kRhtDimensions) {
    for (const bool inverse : {false, true}) {
      for (const DType dtype : kFloats) {
        ApplyRhtOptions o;
        o.inverse = inverse;
        o.rht_dimension = dimension;
        const absl::StatusOr<Plan> plan = MakeApplyRhtPlan(Tensor(dtype), o);
        if (!plan.ok()) continue;
        fn({fmt::format("rht {}{}", dimension, inverse ? ", inverse" : ""), "",
            dtype, *plan});
      }
    }
  }
}

}  // namespace quantd
