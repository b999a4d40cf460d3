// The factors of a line's codes for decoding, in any format and under any
// profile, over a lane type (kernels/arith/lanes.h).
#ifndef QUANTD_KERNELS_ARITH_PROFILE_LINE_FACTORS_H_
#define QUANTD_KERNELS_ARITH_PROFILE_LINE_FACTORS_H_

#include "kernels/arith/decode.h"
#include "kernels/arith/profile/numerics.h"
#include "kernels/plan/profile/numerics.h"
#include "quantd/format.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// Computes factors for a line. `global`, for NVFP4, is the line's amax or the
// value that a profile stores instead. `output` is the type that values are
// rounded to.
template <typename L>
class LineFactors {
 public:
  using F = typename L::F;
  using U = typename L::U;

  QUANTD_FN LineFactors(Scaling scaling, const Numerics& numerics, DType output,
                        float range, F global)
      : scaling_(scaling),
        numerics_(numerics),
        output_(output),
        decode_(MakeLineDecode<L>(scaling, global, range)) {
    if (numerics.other) decode_.amax = Rounded(global);
  }

  // The factor for a scale. `stored` is the scale's code, or the bits of an
  // fp32.
  QUANTD_FN F Of(U stored) const {
    if (numerics_.other && scaling_ == Scaling::kNvfp4) {
      return Rounded(GlobalFactor<L>(numerics_.factor, decode_.amax, stored));
    }
    return Rounded(DecodeFactor<L>(scaling_, decode_, stored));
  }

 private:
  QUANTD_FN F Rounded(F x) const {
    return numerics_.factor_in_type ? RoundToType<L>(output_, x) : x;
  }

  const Scaling scaling_;
  const Numerics numerics_;
  const DType output_;
  Nvfp4Decode<L> decode_;
};

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_PROFILE_LINE_FACTORS_H_
