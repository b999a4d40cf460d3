#include "kernels/device/slabs.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "kernels/plan/geometry.h"

namespace quantd {
namespace {

// No block, tile of scales or square crosses a multiple of this number of rows.
constexpr int64_t kStep = 128;

bool RowsAreApart(const Plan& plan, const Recipe& recipe) {
  if (plan.grouped() || plan.rows() == 0 || plan.cols() == 0) return false;
  if (recipe.rotate) return true;
  if (const auto* o = std::get_if<DequantizeOptions>(&plan.options())) {
    return o->usage == Usage::kRowwise;
  }
  const auto* o = std::get_if<QuantizeOptions>(&plan.options());
  if (o == nullptr || o->usage != Usage::kRowwise) return false;
  if (o->dbias || recipe.statistics || recipe.history) return false;
  return std::all_of(recipe.amaxes.begin(), recipe.amaxes.end(),
                     [](const AmaxOutput& amax) {
                       const bool given = amax.from == AmaxOutput::From::kGiven;
                       return amax.lines ? !given && !amax.columnwise : given;
                     });
}

std::optional<Plan> PlanOfRows(const Plan& whole, int64_t first, int64_t rows) {
  const TensorDesc tensor = {whole.tensor().dtype, {rows, whole.cols()}, -1};
  const auto make = [&]() -> absl::StatusOr<Plan> {
    if (const auto* o = std::get_if<QuantizeOptions>(&whole.options())) {
      QuantizeOptions options = *o;
      if (options.rounding == Rounding::kStochastic) {
        options.shard.row_offset += first;
      }
      return MakeQuantizePlan(tensor, options);
    }
    if (const auto* o = std::get_if<DequantizeOptions>(&whole.options())) {
      return MakeDequantizePlan(tensor, *o);
    }
    if (const auto* o = std::get_if<ApplyRhtOptions>(&whole.options())) {
      return MakeApplyRhtPlan(tensor, *o);
    }
    return absl::UnimplementedError("");
  };
  absl::StatusOr<Plan> plan = make();
  if (!plan.ok()) return std::nullopt;
  return *std::move(plan);
}

// Whether the plan of some rows depends on their position.
bool DependsOnPosition(const Plan& plan) {
  const auto* o = std::get_if<QuantizeOptions>(&plan.options());
  return o != nullptr && o->rounding == Rounding::kStochastic;
}

// Tracks the offset of the next slab's part in each tensor.
class Places {
 public:
  explicit Places(size_t tensors) : next_(tensors, 0), shared_(tensors) {}

  // Adds a slab's tensors and returns their offsets.
  std::vector<size_t> Add(const std::vector<TensorSpec>& whole,
                          const std::vector<TensorSpec>& slab) {
    std::vector<size_t> begin = next_;
    fits_ = fits_ && slab.size() == whole.size();
    for (size_t i = 0; fits_ && i < slab.size(); ++i) {
      const TensorSpec& a = whole[i];
      const TensorSpec& b = slab[i];
      fits_ = a.kind == b.kind && a.dtype == b.dtype && a.layout == b.layout &&
              a.shape.size() == b.shape.size();
      if (!fits_) break;
      if (a.shape == b.shape) {
        shared_[i] = true;
      } else {
        // Slabs are contiguous only if all other dimensions are equal.
        fits_ =
            std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1);
        next_[i] += b.size;
      }
    }
    return begin;
  }

  // Whether the slabs added so far cover the whole.
  bool Cover(const std::vector<TensorSpec>& whole) const {
    for (size_t i = 0; fits_ && i < whole.size(); ++i) {
      if (next_[i] != (shared_[i] ? 0 : whole[i].size)) return false;
    }
    return fits_;
  }

 private:
  std::vector<size_t> next_;
  std::vector<bool> shared_;
  bool fits_ = true;
};

}  // namespace

std::vector<Slab> CutIntoSlabs(const Plan& plan, const Recipe& recipe,
                               size_t bytes) {
  if (!RowsAreApart(plan, recipe)) return {};
  const int64_t count = CeilDiv(static_cast<int64_t>(plan.input_bytes()),
                                static_cast<int64_t>(bytes));
  const int64_t rows = RoundUp(CeilDiv(plan.rows(), count), kStep);
  if (rows >= plan.rows()) return {};
  // The tensor as a matrix; rows are the first dimension of every tensor.
  const std::optional<Plan> matrix = PlanOfRows(plan, 0, plan.rows());
  if (!matrix || matrix->input_bytes() != plan.input_bytes() ||
      matrix->output_bytes() != plan.output_bytes()) {
    return {};
  }
  std::vector<Slab> slabs;
  slabs.reserve(CeilDiv(plan.rows(), rows));
  Places inputs(plan.inputs().size());
  Places outputs(plan.outputs().size());
  for (int64_t row = 0; row < plan.rows(); row += rows) {
    const int64_t height = std::min(rows, plan.rows() - row);
    // Reuses the plan if only the position differs: making it takes time while
    // a device waits.
    const bool again = row > 0 && height == rows && !DependsOnPosition(plan);
    std::optional<Plan> part =
        again ? slabs.back().plan : PlanOfRows(plan, row, height);
    if (!part) return {};
    std::vector<size_t> in = inputs.Add(matrix->inputs(), part->inputs());
    std::vector<size_t> out = outputs.Add(matrix->outputs(), part->outputs());
    slabs.push_back({*std::move(part), std::move(in), std::move(out)});
  }
  if (!inputs.Cover(matrix->inputs()) || !outputs.Cover(matrix->outputs())) {
    return {};
  }
  return slabs;
}

}  // namespace quantd
