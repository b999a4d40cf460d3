// The arithmetic headers of kernels/ as functions over arrays, for each lane
// type: plain C++, and the vectors of each instruction set.
#ifndef QUANTD_TESTS_KERNELS_ARITH_LANE_FUNCTIONS_H_
#define QUANTD_TESTS_KERNELS_ARITH_LANE_FUNCTIONS_H_

#include <cstdint>

namespace quantd {

// The arguments of MxScale (kernels/arith/block_scale.h), which makes an E8M0
// scale.
struct MxNumbers {
  int rule;  // ScaleRule
  float inverse_max;
  int emax;
  int mantissa;
};

// Counts must be multiples of 16.
struct LaneFunctions {
  const char* isa;  // nullptr: plain C++, for every machine
  int width;
  void (*encode_e4m3)(const float* x, uint32_t* codes, int64_t n);
  void (*encode_e5m2)(const float* x, uint32_t* codes, int64_t n);
  void (*encode_e2m1)(const float* x, uint32_t* codes, int64_t n);
  void (*encode_e2m1_stochastic)(const float* x, const uint32_t* bytes,
                                 uint32_t* codes, int64_t n);
  void (*decode_e4m3)(const uint32_t* codes, float* x, int64_t n);
  void (*decode_e5m2)(const uint32_t* codes, float* x, int64_t n);
  void (*decode_e2m1)(const uint32_t* codes, float* x, int64_t n);
  void (*decode_e8m0)(const uint32_t* codes, float* x, int64_t n);
  void (*mx_scale)(const MxNumbers& rule, const float* amax, uint32_t* codes,
                   int64_t n);
  void (*mx_multiplier)(const uint32_t* codes, float* m, int64_t n);
  // Four words for each lane, from the outputs first, first + step, ...
  void (*philox)(uint64_t first, uint64_t step, uint64_t subsequence,
                 uint64_t seed, uint32_t* words);
};

extern const LaneFunctions kPlainLanes;
extern const LaneFunctions kBaselineLanes;
extern const LaneFunctions kAvx2Lanes;
extern const LaneFunctions kAvx512Lanes;

}  // namespace quantd

#endif  // QUANTD_TESTS_KERNELS_ARITH_LANE_FUNCTIONS_H_
