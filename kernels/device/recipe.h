// The steps of a plan, which are the same on every device: the source of each
// amax, the maxima to find in the input, the copies to rotate, the source of an
// FP8 tensor's scale, and the reasons to refuse a job. They are determined once
// and without a device, so that all devices agree.
//
// A Recipe refers to the options of its plan, which must outlive it.
#ifndef QUANTD_KERNELS_DEVICE_RECIPE_H_
#define QUANTD_KERNELS_DEVICE_RECIPE_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "kernels/plan/amax_source.h"
#include "quantd/format.h"
#include "quantd/plan.h"
#include "quantd/sign_mask.h"

namespace quantd {

// The source of the one scale of an FP8 tensor.
enum class TensorScale {
  kNone,   // The format has block scales.
  kGiven,  // The options give it (delayed scaling).
  kAmax,   // It is computed from the copy's amax (current scaling).
};

// A copy to encode or decode.
struct CopyRecipe {
  bool wanted = false;
  int rotation = 0;  // dimension; 0: not rotated
  AmaxSource amax = {};
  TensorScale scale = TensorScale::kNone;
};

// One tensor of amaxes in the output. The plan has a TensorSpec of this kind.
struct AmaxOutput {
  enum class From { kGiven, kPlain, kRotatedRows, kRotatedColumns };

  TensorKind kind = TensorKind::kUnspecified;
  From from = From::kPlain;
  bool lines = false;       // one for each line, not one for each group
  bool columnwise = false;  // the lines are columns
  // The given values, and the factor by which every value is multiplied.
  AmaxSource source = {};
};

// The maxima of the input that a device must find.
struct Search {
  bool plain = false;  // max |x| of each group, and NaN and Inf of the input
  // max |bf16(RHT(x))| of each group, along the rows and along the columns.
  bool rotated[2] = {};
  bool lines = false;  // the maximum of every line, if an AmaxOutput has lines

  bool any() const { return plain || rotated[0] || rotated[1] || lines; }
  bool rotates() const { return rotated[0] || rotated[1]; }
};

// The rotation of a plan, which has at most one.
struct Rotation {
  SignMask mask;
  int dimension;
  DType dtype;  // type of the rotated values
};

// ApplyRht: the output is the input with its rows rotated by the plan's
// rotation.
struct RotateRecipe {
  DType output = DType::kUnspecified;
  bool inverse = false;
};

struct Recipe {
  std::optional<Rotation> rotation = {};
  std::optional<RotateRecipe> rotate = {};
  Search search = {};
  // Amaxes, in the order in which they are written. With a history, the tensor
  // kNextScale first gets this call's amax, which WriteHistory
  // (kernels/device/host_output.h) then replaces by the next scale.
  std::vector<AmaxOutput> amaxes = {};
  // The rowwise and the columnwise copy to encode, or the one copy to decode.
  CopyRecipe copies[2] = {};
  bool history = false;
  bool statistics = false;
  bool propagate = false;  // NaN in the input makes an amax NaN.
  bool reject = false;     // NaN or Inf in the input fails the job.
  // Whether the kernels that support only NVFP4 can make the copies: blocks of
  // 1 x 16 rounded to nearest, linear scales, one amax, rotations of dimension
  // 16, and no statistics.
  bool plain_nvfp4 = false;

  bool copies_wanted() const { return copies[0].wanted || copies[1].wanted; }
  bool copies_rotate() const {
    return copies[0].rotation != 0 || copies[1].rotation != 0;
  }
};

Recipe MakeRecipe(const Plan& plan);

// Whether every aligned run of sixteen positions of a copy draws its random
// bytes from a single counter.
bool DrawsWhole(const Plan& plan, const QuantizeOptions& options);

// INVALID_ARGUMENT for the field "payload" if the recipe rejects NaN or Inf and
// the input has some.
absl::Status CheckFinite(const Recipe& recipe, bool saw_nan, bool saw_inf);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_RECIPE_H_
