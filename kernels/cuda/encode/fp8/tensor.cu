#include "kernels/cuda/encode/fp8/encode.cuh"
#include "kernels/cuda/tile/packed.cuh"
#include "kernels/cuda/tile/quotient.cuh"

namespace quantd::cuda {
namespace {

// Encodes a rowwise copy alone with a tensor's scale. There are no blocks, so
// the payload is treated as one long row. A CTA takes as many elements as a
// tile has.
constexpr int64_t kPerCta = kTileSide * kTileSide;
constexpr int kRun = 8;  // elements of one load
constexpr int kRuns = kPerCta / (kThreads * kRun);

// Encodes eight elements by multiplying them with their tensor's scale, as
// TransformerEngine does.
template <DType D, DType E>
struct Products {
  static constexpr DType kType = D;
  float m;

  __device__ __forceinline__ Products(const EncodeParams&, float scale)
      : m(scale) {}
  __device__ __forceinline__ uint2 Codes(uint4 r) const {
    return make_uint2(CodesOf<E>(LowOf<D>(r.x) * m, HighOf<D>(r.x) * m,
                                 LowOf<D>(r.y) * m, HighOf<D>(r.y) * m),
                      CodesOf<E>(LowOf<D>(r.z) * m, HighOf<D>(r.z) * m,
                                 LowOf<D>(r.w) * m, HighOf<D>(r.w) * m));
  }
};

// Encodes eight elements by dividing them, as profiles do. With kInType every
// quotient is rounded to the input's type first.
template <DType D, DType E, bool kInType>
struct Quotients {
  static constexpr DType kType = D;
  float d;
  Quotient over;

  __device__ __forceinline__ Quotients(const EncodeParams& p, float scale)
      : d(Fp8OperandOf<Scalar>(p, scale)), over(d) {}
  __device__ __forceinline__ uint2 Codes(uint4 r) const {
    const uint32_t most =
        MaxOfWords<D>(MaxOfWords<D>(r.x, r.y), MaxOfWords<D>(r.z, r.w));
    if (!Quotient::Safe(d, LargerHalf<D>(most & 0x7FFF7FFFu))) {
      return make_uint2(CodesOfRare(r.x, r.y), CodesOfRare(r.z, r.w));
    }
    return make_uint2(CodesOfFour(r.x, r.y), CodesOfFour(r.z, r.w));
  }

 private:
  // (Quotients that round to 0 lose their sign. It is set from the elements.)
  __device__ __forceinline__ uint32_t CodesOfFour(uint32_t a,
                                                  uint32_t b) const {
    const uint32_t codes =
        CodesOfQuotients(over.Of(LowOf<D>(a)), over.Of(HighOf<D>(a)),
                         over.Of(LowOf<D>(b)), over.Of(HighOf<D>(b)));
    return codes | (__byte_perm(a, b, 0xFDB9) & 0x80808080u);
  }
  // Takes any values, including NaN and Inf.
  __device__ __noinline__ uint32_t CodesOfRare(uint32_t a, uint32_t b) const {
    const auto divide = [&](float v) { return v == 0.0f ? v : v / d; };
    return CodesOfQuotients(divide(LowOf<D>(a)), divide(HighOf<D>(a)),
                            divide(LowOf<D>(b)), divide(HighOf<D>(b)));
  }
  static __device__ __forceinline__ uint32_t CodesOfQuotients(float a, float b,
                                                              float c,
                                                              float d) {
    if constexpr (!kInType) return CodesOf<E>(a, b, c, d);
    const uint32_t first = Packed<D>(a, b);
    const uint32_t second = Packed<D>(c, d);
    return CodesOf<E>(LowOf<D>(first), HighOf<D>(first), LowOf<D>(second),
                      HighOf<D>(second));
  }
};

// Encodes kPerCta elements in each CTA. A thread takes every kThreads-th run.
template <typename Encoder>
__global__ void __launch_bounds__(kThreads)
    EncodeRuns(const __grid_constant__ EncodeArgs a) {
  LetNextKernelStart();
  constexpr DType D = Encoder::kType;
  const int64_t cols = a.list.cols;
  const int64_t first = blockIdx.x * kPerCta + threadIdx.x * kRun;
  const int64_t end = a.list.rows * cols;
  const std::byte* const x = a.first.x + 2 * first;
  std::byte* const to = a.first.rowwise.data + first;
  uint4 raw[kRuns];
  uint32_t max = 0;
  QUANTD_UNROLL
  for (int i = 0; i < kRuns; ++i) {
    const int at = i * kThreads * kRun;
    raw[i] = make_uint4(0, 0, 0, 0);
    if (first + at < end) {
      raw[i] = __ldg(reinterpret_cast<const uint4*>(x + 2 * at));
    }
  }
  AwaitKernelBefore();
  const GroupTask* group = &a.first;
  if (a.list.count > 1) {
    const int64_t row = blockIdx.x * kPerCta / cols;
    group = &GroupOfRow(a, row, row);
  }
  if ((blockIdx.x + 1) * kPerCta <= (group->row + group->rows) * cols ||
      a.list.count == 1) {
    const Encoder encoder(a.params, *group->rowwise.tensor_scale);
    QUANTD_UNROLL
    for (int i = 0; i < kRuns; ++i) {
      const int at = i * kThreads * kRun;
      if (first + at < end) StoreGlobal(encoder.Codes(raw[i]), to + at);
    }
  } else {
    // These elements belong to several groups, each with its own scale.
#pragma unroll 1
    for (int at = 0; at < kPerCta; at += kThreads * kRun) {
      const int64_t row = (first + at) / cols;
      group = &GroupOfRow(a, blockIdx.x * kPerCta / cols, row);
      if (first + at >= end) continue;
      const Encoder encoder(a.params, *group->rowwise.tensor_scale);
      StoreGlobal(
          encoder.Codes(__ldg(reinterpret_cast<const uint4*>(x + 2 * at))),
          to + at);
    }
  }
  QUANTD_UNROLL
  for (const uint4& r : raw) {
    max = MaxOfWords<D>(
        max, MaxOfWords<D>(MaxOfWords<D>(r.x, r.y), MaxOfWords<D>(r.z, r.w)));
  }
  if (!HoldsSpecial<D>(max)) return;
  uint32_t seen = 0;
#pragma unroll 1
  for (int at = 0; at < kPerCta; at += kThreads * kRun) {
    if (first + at < end) seen |= SeenInRun<D>(x + 2 * at, kRun);
  }
  Report(seen, a.seen);
}

template <typename Encoder>
cudaError_t LaunchRuns(const EncodeArgs& a, const Queue& queue) {
  const int64_t ctas = (a.list.rows * a.list.cols + kPerCta - 1) / kPerCta;
  return LaunchEarly(&EncodeRuns<Encoder>, static_cast<unsigned>(ctas),
                     {kThreads}, queue, a);
}

}  // namespace

cudaError_t LaunchEncodeFp8TensorTiles(const EncodeArgs& a,
                                       const Queue& queue) {
  return LaunchTiles<Scaling::kTensor>(a, queue);
}

cudaError_t LaunchEncodeFp8Runs(const EncodeArgs& a, const Queue& queue) {
  return ForElement(a, [&](auto element) {
    return ForTwoByteType(a, [&](auto type) {
      return LaunchRuns<Products<type(), element()>>(a, queue);
    });
  });
}

cudaError_t LaunchEncodeFp8QuotientRuns(const EncodeArgs& a,
                                        const Queue& queue) {
  constexpr DType E = DType::kE4M3;  // No profile has E5M2.
  return ForTwoByteType(a, [&](auto type) {
    return a.params.numerics.in_type
               ? LaunchRuns<Quotients<type(), E, true>>(a, queue)
               : LaunchRuns<Quotients<type(), E, false>>(a, queue);
  });
}

}  // namespace quantd::cuda
