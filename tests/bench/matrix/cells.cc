#include "tests/bench/matrix/cells.h"

#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "kernels/plan/profile/profile.h"
#include "kernels/plan/shards.h"
#include "kernels/plan/support.h"
#include "tests/kernels/device/plan_rows.h"

namespace quantd::bench {
namespace {

constexpr Usage kCopies[] = {Usage::kRowwise, Usage::kColumnwise, Usage::kBoth};
constexpr int64_t kMatrixGroups = 8;

// An option that a request may have beside its format. `set` changes a row
// whose usage is already chosen.
struct Setting {
  std::string name;
  std::function<void(RowSpec&, QuantizeOptions&)> set;
};

void FindAmax(RowSpec& row, QuantizeOptions& o) {
  o.rowwise_amax.clear();
  o.columnwise_amax.clear();
  o.fp8.scale.clear();
  row.whole = true;
  row.reads = 2;
}

void Rotate(QuantizeOptions& o, int dimension) {
  o.rht.rowwise = HasRowwise(o.usage);
  o.rht.columnwise = HasColumnwise(o.usage);
  o.rht.dimension = dimension;
}

// Returns the settings that determine the arithmetic of codes, alone or
// combined. Each is a cell for every usage.
std::vector<Setting> ArithmeticOf(const FormatSpec& format) {
  std::vector<Setting> list = {{"", [](RowSpec&, QuantizeOptions&) {}}};
  const auto stochastic = [](RowSpec&, QuantizeOptions& o) {
    o.rounding = Rounding::kStochastic;
  };
  if (format.options & kOptStochastic) list.push_back({"sr", stochastic});
  if (format.options & kOptRht) {
    for (const int dimension : kRhtDimensions) {
      const std::string name = "rht " + std::to_string(dimension);
      list.push_back(
          {name, [=](RowSpec&, QuantizeOptions& o) { Rotate(o, dimension); }});
      if ((format.options & kOptStochastic) == 0) continue;
      list.push_back({name + " sr", [=](RowSpec& row, QuantizeOptions& o) {
                        Rotate(o, dimension);
                        stochastic(row, o);
                      }});
    }
  }
  if (format.options & kOptFourOverSix) {
    for (const FourOverSix metric : {FourOverSix::kMae, FourOverSix::kMse}) {
      list.push_back({"4over6 " + std::string(Name(metric)),
                      [=](RowSpec&, QuantizeOptions& o) {
                        o.nvfp4.four_over_six = metric;
                      }});
    }
  }
  if (format.scaling == Scaling::kTensor) {
    // Computes the scale from the amax. The other cells are given the scale.
    list.push_back({"amax given", [](RowSpec&, QuantizeOptions& o) {
                      o.fp8.scale.clear();
                      if (HasRowwise(o.usage)) o.rowwise_amax = {5.0f};
                      if (HasColumnwise(o.usage)) o.columnwise_amax = {5.0f};
                    }});
  }
  if (format.options & kOptRowScaled) {
    list.push_back({"row scaled", [](RowSpec& row, QuantizeOptions& o) {
                      FindAmax(row, o);
                      o.form.row_scaled = true;
                    }});
  }
  for (const ProfileSpec& profile : Profiles()) {
    if (profile.profile == Profile::kTe) continue;
    if (FindNumerics(profile.profile, format.format) == nullptr) continue;
    list.push_back({std::string(profile.name),
                    [p = profile.profile](RowSpec&, QuantizeOptions& o) {
                      o.profile = p;
                      if (FindFormat(o.format)->scaling == Scaling::kTensor) {
                        o.rowwise_amax = {5.0f};
                        o.fp8.scale.clear();
                      }
                    }});
  }
  return list;
}

// Returns the setting for any other option. Cells are given the amax by
// default, so the setting for kOptGivenAmax is a computed amax.
std::optional<Setting> OtherOf(const FormatSpec& format,
                               const OptionSpec& option) {
  const std::string name(option.name);
  switch (option.option) {
    case kOptGivenAmax:
      return Setting{"amax found", FindAmax};
    case kOptEstimation:
      return Setting{name, [](RowSpec& row, QuantizeOptions& o) {
                       FindAmax(row, o);
                       Rotate(o, 16);
                       o.nvfp4.amax_estimation_scale = 2.0f;
                     }};
    case kOptEpsilon:
      return Setting{name, [](RowSpec& row, QuantizeOptions& o) {
                       if (!o.fp8.scale.empty()) FindAmax(row, o);
                       o.fp8.epsilon = 0.01f;
                     }};
    case kOptPowerOfTwo:
      return Setting{name, [block = format.scaling == Scaling::kBlock](
                               RowSpec& row, QuantizeOptions& o) {
                       if (!o.fp8.scale.empty()) FindAmax(row, o);
                       o.fp8.power_of_two = !block;
                     }};
    case kOptHistory:
      return Setting{name, [](RowSpec& row, QuantizeOptions& o) {
                       row.whole = true;
                       row.reads = 2;
                       o.fp8.history.emplace();
                       o.fp8.history->amax = {1.0f, 2.0f};
                     }};
    case kOptScaleRule:
      return Setting{"floor", [](RowSpec&, QuantizeOptions& o) {
                       o.mx.scale_rule = ScaleRule::kFloor;
                     }};
    case kOptGrouped:
      return Setting{name, [](RowSpec& row, QuantizeOptions&) {
                       row.groups = kMatrixGroups;
                     }};
    case kOptRht:
    case kOptStochastic:
    case kOptRowScaled:
    case kOptFourOverSix:
    case kOptGivenScale:
    case kOptProfile:
      return std::nullopt;  // covered by ArithmeticOf, or part of every cell
    default:
      return Setting{name, [set = SettingsOf(option.option)[0].set](
                               RowSpec&, QuantizeOptions& o) {
                       TensorDesc any;
                       set(any, o);
                     }};
  }
}

class Matrix {
 public:
  explicit Matrix(DType dtype) : dtype_(dtype) {}

  void AddFormat(const FormatSpec& format) {
    for (const Setting& way : ArithmeticOf(format)) {
      for (const Usage usage : kCopies) Add(format, usage, {&way});
    }
    std::vector<Setting> others;
    for (const OptionSpec& option : quantd::Options()) {
      if ((format.options & option.option) == 0) continue;
      if (auto other = OtherOf(format, option)) {
        others.push_back(*std::move(other));
      }
    }
    for (const Setting& other : others) Add(format, Usage::kBoth, {&other});
    for (size_t i = 0; i < others.size(); ++i) {
      for (size_t j = i + 1; j < others.size(); ++j) {
        // Input types share the pairs: each type measures some of them.
        const size_t turn = turn_++;
        if (kInputTypes[turn % std::size(kInputTypes)] != dtype_) continue;
        Add(format, kCopies[turn / 3 % 3], {&others[i], &others[j]});
      }
    }
  }

  void AddDecoding(const FormatSpec& format) {
    for (const bool rotated : {false, true}) {
      if (rotated && (format.options & kOptRht) == 0) continue;
      for (const Usage usage : {Usage::kRowwise, Usage::kColumnwise}) {
        const QuantizeOptions source = [&] {
          QuantizeOptions o = Given(format, usage);
          if (rotated) Rotate(o, 16);
          return o;
        }();
        RowSpec row = {"", DecodeOptionsOf(source, usage, DType::kUnspecified)};
        row.source = source;
        row.ceiling = Ceiling::kMix;
        Put(std::string(format.name) + " decode" + (rotated ? " rht 16" : ""),
            usage, std::move(row));
      }
    }
  }

  std::vector<Cell> Take() { return std::move(cells_); }

 private:
  static QuantizeOptions Given(const FormatSpec& format, Usage usage) {
    return Quantize(format.format, usage);
  }

  // Adds a cell if it is legal.
  void Add(const FormatSpec& format, Usage usage,
           const std::vector<const Setting*>& settings) {
    RowSpec row = {"", Given(format, usage)};
    // The amax of each channel is always computed.
    QuantizeOptions o = std::get<QuantizeOptions>(row.options);
    if (format.scaling == Scaling::kChannel) FindAmax(row, o);
    std::string line(format.name);
    for (const Setting* setting : settings) {
      setting->set(row, o);
      if (!setting->name.empty()) line += " " + setting->name;
    }
    row.options = o;
    if (row.groups > 0) {
      o.splits = std::vector<int64_t>(kMatrixGroups, 128);
      for (std::vector<float>* given :
           {&o.rowwise_amax, &o.columnwise_amax, &o.fp8.scale}) {
        if (!given->empty()) given->resize(kMatrixGroups, given->front());
      }
    }
    const TensorDesc tensor = {dtype_, {kMatrixGroups * 128, 2048}, -1};
    if (!MakeQuantizePlan(tensor, o).ok()) return;
    Put(line, usage, std::move(row));
  }

  void Put(const std::string& line, Usage usage, RowSpec row) {
    row.name = line + ", " + std::string(Name(usage));
    cells_.push_back({std::move(row), line, usage});
  }

  const DType dtype_;
  size_t turn_ = 0;
  std::vector<Cell> cells_;
};

}  // namespace

std::vector<Cell> MatrixOf(DType dtype) {
  Matrix matrix(dtype);
  for (const FormatSpec& format : kFormats) {
    matrix.AddFormat(format);
    matrix.AddDecoding(format);
  }
  return matrix.Take();
}

}  // namespace quantd::bench
