// The oracle's account of what quantization lost.
#ifndef QUANTD_TESTS_TESTING_ORACLE_STATISTICS_H_
#define QUANTD_TESTS_TESTING_ORACLE_STATISTICS_H_

#include <array>
#include <cstdint>

#include "tests/testing/oracle_codec.h"

namespace quantd::oracle {

struct Statistics {
  int64_t elements = 0;  // finite ones
  int64_t clipped = 0;   // would have rounded beyond the largest code
  int64_t flushed = 0;   // not zero, decoded to zero
  float max_error = 0;
  double signal = 0;   // sum of squares
  double noise = 0;    // of the errors
  double sqnr_db = 0;  // +Inf without noise
};

// Collects the elements of one copy, in any order.
class Tally {
 public:
  // `v` was quantized, times `multiplier`, to what decodes to `d`.
  void Add(Code code, float v, float multiplier, float d);
  void Add(const Tally& other);
  Statistics Result() const;

 private:
  __extension__ using Wide = unsigned __int128;
  // Squares of 24-bit fractions by exponent field, exact.
  using Bins = std::array<Wide, 255>;
  static void Square(Bins& bins, float v);
  static double Sum(const Bins& bins);

  Statistics counts_;
  Bins signal_ = {};
  Bins noise_ = {};
};

}  // namespace quantd::oracle

#endif  // QUANTD_TESTS_TESTING_ORACLE_STATISTICS_H_
