// IEEE binary32 operations, each computed in double and then rounded to float.
// Both roundings together give the correct result for these four, since 53 >= 2
// * 24 + 2.
#ifndef QUANTD_TESTS_ORACLE_FP32_H_
#define QUANTD_TESTS_ORACLE_FP32_H_

#include <cmath>
#include <limits>

namespace quantd::oracle {

inline constexpr float kMax = std::numeric_limits<float>::max();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

inline float Narrow(double x) { return static_cast<float>(x); }
inline float Mul(float a, float b) { return Narrow(double{a} * double{b}); }
inline float Div(float a, float b) { return Narrow(double{a} / double{b}); }
inline float Add(float a, float b) { return Narrow(double{a} + double{b}); }
inline float Sub(float a, float b) { return Narrow(double{a} - double{b}); }
// fmin(x, limit), which drops a NaN.
inline float Capped(float x, float limit = kMax) {
  return std::isnan(x) || x > limit ? limit : x;
}

}  // namespace quantd::oracle

#endif  // QUANTD_TESTS_ORACLE_FP32_H_
