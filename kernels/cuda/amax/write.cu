// Writes amaxes to the output and makes the code tables that encoders derive
// from them. Otherwise every CTA of an encoder would have to make its own table
// first.
#include "kernels/cuda/encode/nvfp4/code_tables.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx/next_kernel.cuh"
#include "kernels/cuda/tile/element.cuh"

namespace quantd::cuda {
namespace {

// --- kernels ----------------------------------------------------------------

__device__ __forceinline__ float AmaxFrom(const Found& found, FoundAmax source,
                                          bool propagate) {
  uint32_t bits = found.plain;
  uint32_t nan_bit = kSeenNan;
  if (source == FoundAmax::kRowRht) {
    bits = found.row_rht;
    nan_bit = kSeenRowRhtNan;
  } else if (source == FoundAmax::kColRht) {
    bits = found.col_rht;
    nan_bit = kSeenColRhtNan;
  }
  if (propagate && (found.seen & nan_bit) != 0) bits = kNanBits;
  return Scalar::Float(bits);
}

__device__ __forceinline__ void WriteEntry(const WriteAmaxArgs& a, int i,
                                           int64_t g) {
  const WriteAmaxArgs::Entry& e = a.entries[i];
  const float amax =
      e.source == FoundAmax::kGiven
          ? e.number
          : AmaxFrom(a.found[g], e.source, a.propagate) * e.number;
  e.to[g] = Scalar::Float(EncodeElement<DType::kF32>(amax));
}

// Writes amaxes, with one thread for each group.
__global__ void __launch_bounds__(kThreads)
    WriteAmax(const __grid_constant__ WriteAmaxArgs a) {
  LetNextKernelStart();
  AwaitKernelBefore();
  const int64_t g = FirstItem();
  if (g >= a.groups) return;
  for (int i = 0; i < a.count; ++i) WriteEntry(a, i, g);
}

// Writes amaxes and tables, with one CTA for each group. Team 0 makes the
// rowwise copy's table, team 1 the columnwise copy's.
template <typename Table>
__global__ void __launch_bounds__(2 * kThreads)
    WriteAmaxAndTables(const __grid_constant__ WriteAmaxArgs a) {
  __shared__ Table tables[2];
  LetNextKernelStart();
  AwaitKernelBefore();
  const int64_t g = blockIdx.x;
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < a.count) WriteEntry(a, thread, g);
  __syncthreads();
  const uint32_t copy = Team::number();
  const float* const amax = a.amaxes[copy];
  if (amax == nullptr) return;
  tables[copy].Fill(amax[g], a.range);
  Team::Sync();
  StoreCodeTable(tables[copy], CodeTableAt(a.tables, g, copy));
}

// --- launchers --------------------------------------------------------------

template <typename Table>
cudaError_t Launch(const WriteAmaxArgs& a, const Queue& queue) {
  return LaunchEarly(&WriteAmaxAndTables<Table>,
                     static_cast<unsigned>(a.groups), {2 * kThreads}, queue, a);
}

}  // namespace

cudaError_t LaunchWriteAmax(const WriteAmaxArgs& a, const Queue& queue) {
  switch (a.table) {
    case CodeTable::kMultipliers:
      return Launch<Multipliers>(a, queue);
    case CodeTable::kValues:
      return Launch<ValueTable>(a, queue);
    case CodeTable::kFits:
      return Launch<FitTable>(a, queue);
    case CodeTable::kNone:
      break;
  }
  const auto ctas = static_cast<unsigned>((a.groups + kThreads - 1) / kThreads);
  return LaunchEarly(&WriteAmax, ctas, {kThreads}, queue, a);
}

cudaError_t FindKernels() {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(
      &attributes, reinterpret_cast<const void*>(&WriteAmax));
  cudaGetLastError();  // clears the error, which is returned
  return error;
}

}  // namespace quantd::cuda
