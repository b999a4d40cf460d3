// Where a tensor may be cut so that its parts, quantized one by one, hold the
// bytes of the whole.
#ifndef QUANTD_KERNELS_PLAN_SHARD_CUT_H_
#define QUANTD_KERNELS_PLAN_SHARD_CUT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/plan/options.h"

namespace quantd {

// Rows may be cut at multiples of `rows`, columns at multiples of `cols`, and
// both where the whole ends.
struct CutUnits {
  int64_t rows = 1;
  int64_t cols = 1;
};
// Blocks and rotations of the copies that are made must stay whole: those of
// the rowwise one lie along K, those of the columnwise one along M, square ones
// along both. The options are legal.
CutUnits CutUnitsOf(const QuantizeOptions& options);

// Whether the rows x cols of a request, which lie in the whole where
// options.shard says, are cut there. Rows of groups are not judged: every group
// is a tensor of its own, wherever it begins. Not part of a Plan, for which any
// position is legal: that of a group that was taken out of its tensor is, too.
absl::Status CheckShardCut(const QuantizeOptions& options, int64_t rows,
                           int64_t cols);

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_SHARD_CUT_H_
