#include "kernels/device/recipe.h"

#include <algorithm>
#include <variant>

#include "kernels/arith/maxima.h"
#include "kernels/plan/support.h"
#include "quantd/field_error.h"

namespace quantd {
namespace {

using From = AmaxOutput::From;

// Adds the maxima that an output needs to the search.
void SearchFor(const AmaxOutput& output, Search* search) {
  search->plain |= output.from == From::kPlain && !output.lines;
  search->rotated[0] |= output.from == From::kRotatedRows;
  search->rotated[1] |= output.from == From::kRotatedColumns;
  search->lines |= output.lines;
}

From FromOf(const AmaxSource& source, bool columnwise) {
  switch (source.kind) {
    case AmaxSource::Kind::kGiven:
      return From::kGiven;
    case AmaxSource::Kind::kRotated:
      return columnwise ? From::kRotatedColumns : From::kRotatedRows;
    default:
      return From::kPlain;
  }
}

// Options that plain NVFP4 may have.
constexpr uint32_t kPlainOptions = kOptRht | kOptGivenAmax | kOptEstimation |
                                   kOptGrouped | kOptDbias | kOptProfile;

bool IsPlainForm(const CopyForm& form) {
  return form.scale_layout == Layout::kLinear && !form.row_scaled &&
         !form.scale_256;
}

struct Maker {
  const Plan& plan;

  Recipe operator()(const QuantizeOptions& o) const {
    const FormatSpec& format = *FindFormat(o.format);
    Recipe r;
    SetRotation(o.rht.rowwise || o.rht.columnwise, o.rht.sign_mask,
                o.rht.dimension, plan.tensor().dtype, &r);
    SetPolicy(o.non_finite, &r);
    r.statistics = o.statistics;
    r.history = o.fp8.history.has_value();
    for (bool columnwise : {false, true}) {
      CopyRecipe& copy = r.copies[columnwise];
      copy.wanted = columnwise ? HasColumnwise(o.usage) : HasRowwise(o.usage);
      if (!copy.wanted) continue;
      const bool rotated = columnwise ? o.rht.columnwise : o.rht.rowwise;
      copy.rotation = rotated ? o.rht.dimension : 0;
      copy.amax = SourceOfAmax(o, columnwise);
      if (format.scaling == Scaling::kTensor) {
        copy.scale =
            o.fp8.scale.empty() ? TensorScale::kAmax : TensorScale::kGiven;
      }
      if (copy.amax.kind == AmaxSource::Kind::kNone) continue;
      Add({.kind = columnwise ? TensorKind::kColumnwiseAmax
                              : TensorKind::kRowwiseAmax,
           .from = FromOf(copy.amax, columnwise),
           .lines = copy.amax.kind == AmaxSource::Kind::kLines,
           .columnwise = columnwise,
           .source = copy.amax},
          &r);
    }
    if (o.want_amax) Add({.kind = TensorKind::kAmax}, &r);
    if (o.fp8.history) Add({.kind = TensorKind::kNextScale}, &r);
    // If no copy is encoded, only the search finds NaN and Inf.
    r.search.plain |= !r.copies_wanted();
    r.plain_nvfp4 = o.format == Format::kNvfp4 &&
                    (UsedOptions(o) & ~kPlainOptions) == 0 &&
                    (!r.copies_rotate() || o.rht.dimension == 16);
    return r;
  }

  Recipe operator()(const DequantizeOptions& o) const {
    Recipe r;
    SetRotation(o.inverse_rht, o.sign_mask, o.rht_dimension, o.output, &r);
    const int rotation = o.inverse_rht ? o.rht_dimension : 0;
    r.copies[HasColumnwise(o.usage)] = {.wanted = true, .rotation = rotation};
    r.plain_nvfp4 = o.format == Format::kNvfp4 && IsPlainForm(o.form) &&
                    o.profile == Profile::kTe &&
                    (rotation == 0 || rotation == 16);
    return r;
  }

  Recipe operator()(const RhtAmaxOptions& o) const {
    Recipe r;
    SetRotation(o.rowwise_rht || o.columnwise_rht, o.sign_mask, o.rht_dimension,
                plan.tensor().dtype, &r);
    SetPolicy(o.non_finite, &r);
    const bool lines = o.domain == AmaxDomain::kRow;
    const auto add = [&](bool wanted, TensorKind kind, From from,
                         bool columnwise) {
      if (wanted) Add({kind, from, lines, columnwise}, &r);
    };
    add(o.rowwise, TensorKind::kRowwiseAmax, From::kPlain, false);
    add(o.columnwise, TensorKind::kColumnwiseAmax, From::kPlain, true);
    add(o.rowwise_rht, TensorKind::kRowwiseRhtAmax, From::kRotatedRows, false);
    add(o.columnwise_rht, TensorKind::kColumnwiseRhtAmax, From::kRotatedColumns,
        true);
    // NaN and Inf are reported for the input, not for rotated values.
    r.search.plain = true;
    return r;
  }

  Recipe operator()(const ApplyRhtOptions& o) const {
    Recipe r;
    SetRotation(true, o.sign_mask, o.rht_dimension, plan.tensor().dtype, &r);
    r.rotate = {.output = o.output, .inverse = o.inverse};
    return r;
  }

 private:
  // Sets the rotation. A plan that rotates has a mask.
  static void SetRotation(bool rotates, const std::optional<SignMask>& mask,
                          int dimension, DType dtype, Recipe* r) {
    if (rotates) r->rotation = Rotation{*mask, dimension, dtype};
  }
  static void SetPolicy(NonFinite policy, Recipe* r) {
    r->propagate = policy == NonFinite::kPropagate;
    r->reject = policy == NonFinite::kReject;
  }
  static void Add(const AmaxOutput& output, Recipe* r) {
    SearchFor(output, &r->search);
    r->amaxes.push_back(output);
  }
};

}  // namespace

bool DrawsWhole(const Plan& plan, const QuantizeOptions& o) {
  if (HasRowwise(o.usage) && o.shard.column_offset % kBlock != 0) return false;
  if (!HasColumnwise(o.usage)) return true;
  return std::all_of(plan.groups().begin(), plan.groups().end(),
                     [&](const Group& g) {
                       return (o.shard.row_offset + g.row) % kBlock == 0;
                     });
}

Recipe MakeRecipe(const Plan& plan) {
  return std::visit(Maker{plan}, plan.options());
}

absl::Status CheckFinite(const Recipe& recipe, bool saw_nan, bool saw_inf) {
  if (!recipe.reject || (!saw_nan && !saw_inf)) return absl::OkStatus();
  return FieldError("payload", "finite values (non_finite is reject)",
                    saw_nan ? "NaN" : "Inf");
}

}  // namespace quantd
