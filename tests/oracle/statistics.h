// The oracle's error statistics.
#ifndef QUANTD_TESTS_ORACLE_STATISTICS_H_
#define QUANTD_TESTS_ORACLE_STATISTICS_H_

#include <cstdint>
#include <vector>

#include "tests/oracle/codec.h"

namespace quantd::oracle {

struct Statistics {
  int64_t elements = 0;  // finite before and after
  int64_t clipped = 0;   // would have rounded beyond the largest code
  int64_t flushed = 0;   // not zero, decoded to zero
  float max_error = 0;
  double signal = 0;   // sum of squares of the values
  double noise = 0;    // sum of squares of the errors
  double sqnr_db = 0;  // +Inf without noise, NaN without elements
};

// A sum of doubles with a single rounding at the end.
class ExactSum {
 public:
  void Add(double x);
  void Add(const ExactSum& other);
  double Rounded() const;

 private:
  // Non-overlapping parts of the sum, the smallest first.
  std::vector<double> parts_;
};

// The length of a run: squares of a line's positions are added in fp32 within
// aligned runs of this length.
inline constexpr int64_t kRun = 16;

// Collects the elements of one copy, run by run in any order.
class Tally {
 public:
  // Adds at most kRun values `v` that were scaled to `y` and decode to `d`.
  void Add(Code code, const std::vector<float>& v, const std::vector<float>& y,
           const std::vector<float>& d);
  void Add(const Tally& other);
  Statistics Result() const;

 private:
  Statistics counts_;
  ExactSum signal_;
  ExactSum noise_;
};

}  // namespace quantd::oracle

#endif  // QUANTD_TESTS_ORACLE_STATISTICS_H_
