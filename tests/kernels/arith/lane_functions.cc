// Compiled once for each lane type, with QUANTD_ARITH, QUANTD_LANES, LANES_ISA
// and LANES_TABLE given, or none of them for plain C++. The leaf rule of
// kernels/cpu/isa/tiles.cc applies.
#include "tests/kernels/arith/lane_functions.h"

#include "kernels/arith/encode.h"
#include "kernels/arith/philox.h"
#ifdef QUANTD_LANES
#include "kernels/cpu/isa/transpose.h"
#else
#define LANES_TABLE kPlainLanes
#define LANES_ISA nullptr
#endif

namespace quantd {
inline namespace QUANTD_ARITH {
namespace {

#ifdef QUANTD_LANES
using L = Vec<QUANTD_LANES>;
#else
using L = Scalar;
#endif
using F = L::F;
using U = L::U;

// to[i] = fn(from[i]).
template <typename Out, typename In, typename Fn>
void Map(const void* from, void* to, int64_t n, Fn fn) {
  const auto* p = static_cast<const char*>(from);
  auto* q = static_cast<char*>(to);
  for (int64_t i = 0; i < n; i += L::kWidth) {
    In in;
    __builtin_memcpy(&in, p + 4 * i, sizeof(in));
    const Out out = fn(in);
    __builtin_memcpy(q + 4 * i, &out, sizeof(out));
  }
}

void E4M3(const float* x, uint32_t* codes, int64_t n) {
  Map<U, F>(x, codes, n, [](F v) { return EncodeE4M3<L>(v); });
}
void E5M2(const float* x, uint32_t* codes, int64_t n) {
  Map<U, F>(x, codes, n, [](F v) { return EncodeE5M2<L>(v); });
}
void E2M1(const float* x, uint32_t* codes, int64_t n) {
  Map<U, F>(x, codes, n, [](F v) { return EncodeE2M1<L>(v); });
}
void Stochastic(const float* x, const uint32_t* bytes, uint32_t* codes,
                int64_t n) {
  for (int64_t i = 0; i < n; i += L::kWidth) {
    F v;
    U b;
    __builtin_memcpy(&v, x + i, sizeof(v));
    __builtin_memcpy(&b, bytes + i, sizeof(b));
    U code = EncodeE2M1Stochastic<L>(v, b);
    if constexpr (L::kWidth > 1) {
      // Codes are packed: all eight of a word must be equal.
      const F eight[8] = {v, v, v, v, v, v, v, v};
      const U bytes[2] = {b * 0x01010101u, b * 0x01010101u};
      const U word = PackE2M1Stochastic<L>(eight, F{} + 1.0f, bytes);
      const U wrong = U{} + 0xFFu;
      code = (word == code * 0x11111111u) | IsNan<L>(v) ? code : wrong;
    }
    __builtin_memcpy(codes + i, &code, sizeof(code));
  }
}
void FromE4M3(const uint32_t* codes, float* x, int64_t n) {
  Map<F, U>(codes, x, n, [](U c) { return DecodeE4M3<L>(c); });
}
void FromE5M2(const uint32_t* codes, float* x, int64_t n) {
  Map<F, U>(codes, x, n, [](U c) { return DecodeE5M2<L>(c); });
}
void FromE2M1(const uint32_t* codes, float* x, int64_t n) {
  Map<F, U>(codes, x, n, [](U c) { return DecodeE2M1<L>(c); });
}
void FromE8M0(const uint32_t* codes, float* x, int64_t n) {
  Map<F, U>(codes, x, n, [](U c) { return DecodeE8M0<L>(c); });
}
void Mx(const MxNumbers& rule, const float* amax, uint32_t* codes, int64_t n) {
  EncodeParams p = {};
  p.rule = static_cast<ScaleRule>(rule.rule);
  p.inverse_max = rule.inverse_max;
  p.emax = rule.emax;
  p.mantissa = rule.mantissa;
  Map<U, U>(amax, codes, n, [&](U bits) { return MxScale<L>(p, bits); });
}
void Multiplier(const uint32_t* codes, float* m, int64_t n) {
  Map<F, U>(codes, m, n, [](U c) { return MxMultiplier<L>(c); });
}
void Words(uint64_t first, uint64_t step, uint64_t subsequence, uint64_t seed,
           uint32_t* words) {
  U w[4];
  Philox<L>(first, step, subsequence, seed, w);
  for (int i = 0; i < 4; ++i) {
    uint32_t lanes[L::kWidth];
    __builtin_memcpy(lanes, &w[i], sizeof(lanes));
    for (int l = 0; l < L::kWidth; ++l) words[4 * l + i] = lanes[l];
  }
}

}  // namespace
}  // namespace QUANTD_ARITH

const LaneFunctions LANES_TABLE = {
    LANES_ISA, L::kWidth, E4M3,     E5M2, E2M1,       Stochastic, FromE4M3,
    FromE5M2,  FromE2M1,  FromE8M0, Mx,   Multiplier, Words};

}  // namespace quantd
