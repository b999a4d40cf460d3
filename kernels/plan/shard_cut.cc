#include "kernels/plan/shard_cut.h"

#include <algorithm>

#include "fmt/format.h"
#include "kernels/plan/field_error.h"
#include "kernels/plan/format.h"

namespace quantd {

CutUnits CutUnitsOf(const QuantizeOptions& options) {
  const FormatSpec& format = *FindFormat(options.format);
  const int64_t block = std::max(1, format.block);
  const auto unit = [&](bool rotated) {
    return std::max<int64_t>(block, rotated ? options.rht.dimension : 0);
  };
  CutUnits units;
  if (format.square) units = {block, block};
  if (HasColumnwise(options.usage)) units.rows = unit(options.rht.columnwise);
  if (HasRowwise(options.usage)) units.cols = unit(options.rht.rowwise);
  return units;
}

absl::Status CheckShardCut(const QuantizeOptions& options, int64_t rows,
                           int64_t cols) {
  if (rows == 0 || cols == 0 || options.usage == Usage::kNone) {
    return absl::OkStatus();
  }
  const CutUnits units = CutUnitsOf(options);
  const ShardPosition& at = options.shard;
  if (!options.splits && at.row_offset % units.rows != 0) {
    return FieldError("shard.row_offset",
                      fmt::format("a multiple of {}", units.rows),
                      fmt::to_string(at.row_offset));
  }
  if (at.column_offset % units.cols != 0) {
    return FieldError("shard.column_offset",
                      fmt::format("a multiple of {}", units.cols),
                      fmt::to_string(at.column_offset));
  }
  const int64_t end = at.column_offset + cols;
  if (at.total_columns > end && end % units.cols != 0) {
    return FieldError("shard.total_columns",
                      fmt::format("{}, or column_offset + K a multiple of {}",
                                  end, units.cols),
                      fmt::to_string(at.total_columns));
  }
  return absl::OkStatus();
}

}  // namespace quantd
