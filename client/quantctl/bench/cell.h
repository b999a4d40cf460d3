// What a bench finds, a row of its table each.
#ifndef QUANTD_CLIENT_QUANTCTL_BENCH_CELL_H_
#define QUANTD_CLIENT_QUANTCTL_BENCH_CELL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/quantctl/bench/load.h"
#include "client/quantctl/echo/echo_client.h"

namespace quantd::quantctl {

// The upper of the two in the middle where their number is even; 0 of none.
double Median(std::vector<double> values);

// Raw calls with the bytes of a cell's, arranged in one way.
struct EchoRate {
  Arrangement how;
  std::vector<double> gb_per_s;

  std::string text() const;  // "one message", "4 streams of 1.00 MiB"
};

struct Cell {
  uint64_t bytes = 0;        // of a call's input
  uint64_t reply_bytes = 0;  // of what comes back
  std::string amax;          // "given", "computed"; empty: nothing was said
  Load load;
  Outcome outcome;               // of all rounds
  std::vector<double> gb_per_s;  // of input, one each round
  std::vector<EchoRate> echoes;  // empty: none was asked for

  double input_gb_per_s() const { return Median(gb_per_s); }
  double calls_per_s() const {
    return input_gb_per_s() * 1e9 / static_cast<double>(bytes);
  }
  // The arrangement that carries most; null: there is none.
  const EchoRate* best_echo() const;
  // Of medians; 0 without an echo.
  double of_echo() const;
};

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_BENCH_CELL_H_
