// The oracle's arithmetic of other libraries, in the order of the section
// Profiles of FORMATS.md. `T` is the type of the library's input.
#ifndef QUANTD_TESTS_ORACLE_PROFILE_H_
#define QUANTD_TESTS_ORACLE_PROFILE_H_

#include <cstdint>

#include "tests/oracle/codec.h"
#include "tests/oracle/layout.h"
#include "tests/oracle/scale.h"

namespace quantd::oracle {

enum class Profile {
  kTe = 0,
  kModelopt = 1,
  kModeloptCuda = 2,
  kCompressedTensors = 3,
  kCompressedTensorsCuda = 4,
  kTorchao = 5,
  kTorchaoCuda = 6,
  kComfy = 7,
  kComfyCuda = 8,
  kDeepgemm = 9,
  kDeepgemmCuda = 10,
  kMiles = 11,
};

// The size of a stored scale in bytes: that of `t` if the library stores scales
// in that type.
int ScaleSizeOf(Profile p, Format f, Element t);

// Whether a profile stores a global number with NVFP4's scales, and that
// number, for a profile other than kTe. (For an amax of NaN, the stored number
// is NaN.)
bool HasGlobal(Profile p, Format f);
float GlobalOf(Profile p, Element t, float amax);

// One library's arithmetic for one format, for a block, a line or a tensor.
class Library {
 public:
  Library(Profile p, Format f, Element t, ScaleRule rule)
      : p_(p), f_(f), t_(t), rule_(rule) {}

  // The scale for a largest magnitude `b` under the tensor's amax: a code, or
  // fp32 bits.
  uint32_t Scale(float b, float amax) const;
  // The value that is rounded to a code.
  float Scaled(float x, uint32_t scale, float amax) const;
  uint8_t CodeUnder(float x, uint32_t scale, float amax) const;

 private:
  uint8_t Nvfp4Scale(float b, float amax) const;
  float Fp8Scale(float amax) const;
  uint8_t MxScale(float b) const;
  float ScaledNvfp4(float x, uint8_t scale, float amax) const;
  float ScaledFp8(float x, float s) const;
  float ScaledMx(float x, uint8_t scale) const;

  Profile p_;
  Format f_;
  Element t_;
  ScaleRule rule_;
};

// The factor of codes, for values of type `output`; `global` is the result of
// GlobalOf.
float FactorUnder(Profile p, Format f, Element output, uint32_t stored,
                  float global);
// Whether the even element of two E2M1 codes is in the high nibble.
bool HighFirst(Profile p);

}  // namespace quantd::oracle

#endif  // QUANTD_TESTS_ORACLE_PROFILE_H_
