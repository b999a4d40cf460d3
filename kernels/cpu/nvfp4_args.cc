#include "kernels/cpu/nvfp4_args.h"

#include "kernels/arith/block_scale.h"
#include "kernels/arith/nvfp4.h"

namespace quantd::cpu {
namespace {

Nvfp4Copy CopyOf(const EncodeParams& params, const CopyTask& copy) {
  Nvfp4Copy plain;
  if (copy.data == nullptr) return plain;
  const Nvfp4Encode global = MakeNvfp4Encode(*copy.amax, kNvfp4Range448);
  plain.data = copy.data;
  plain.scale = copy.scale;
  plain.data_stride = copy.data_line;
  plain.scale_stride = copy.scale_line;
  plain.s_dec = global.s_dec;
  plain.s_inv6 = global.s_inv6;
  if (WorksWithGlobal<true>(params.numerics)) {
    plain.global = GlobalScaleOf<Scalar>(params, *copy.amax);
  }
  plain.signs = copy.signs;
  return plain;
}

}  // namespace

QuantizeArgs Nvfp4Args(const EncodeParams& params, const GroupTask& group) {
  return {.x = {group.x, params.input, group.rows, params.cols},
          .row = CopyOf(params, group.rowwise),
          .col = CopyOf(params, group.columnwise),
          .propagate = params.propagate,
          .params = WorksWithGlobal<true>(params.numerics) ? &params : nullptr};
}

DequantizeArgs Nvfp4Args(const DequantizeParams& params,
                         const GroupTask& group) {
  const CopyTask& copy = params.columnwise ? group.columnwise : group.rowwise;
  const Nvfp4Decode<Scalar> global =
      MakeNvfp4Decode<Scalar>(*copy.amax, params.range);
  return {.data = copy.data,
          .scale = copy.scale,
          .data_stride = copy.data_line,
          .scale_stride = copy.scale_line,
          .amax = global.amax,
          .k = global.k,
          .signs = copy.signs,
          .out = const_cast<std::byte*>(group.x),
          .dtype = params.output,
          .rows = group.rows,
          .cols = params.cols};
}

}  // namespace quantd::cpu
