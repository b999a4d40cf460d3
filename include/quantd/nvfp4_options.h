// Options of nvfp4 and nvfp4_2d.
#ifndef QUANTD_NVFP4_OPTIONS_H_
#define QUANTD_NVFP4_OPTIONS_H_

#include <optional>

#include "quantd/format.h"

namespace quantd {

// The options that decide how a block is encoded. Kernels get them as they are.
struct Nvfp4Arithmetic {
  FourOverSix four_over_six = FourOverSix::kOff;
  // With four_over_six: compares the errors of the scaled values.
  bool fast_error = false;
  // Tries six scales for every block, and keeps the one with the least squared
  // error.
  bool scale_search = false;
};

struct Nvfp4Options : Nvfp4Arithmetic {
  // Estimates the amax of a rotated copy for which none is given: the amax of
  // the unrotated tensor times this factor. 0: no estimate. Not set: the
  // server's default, which is no estimate unless its operator set one.
  std::optional<float> amax_estimation_scale = {};
};

}  // namespace quantd

#endif  // QUANTD_NVFP4_OPTIONS_H_
