// The table of a bench as a picture.
#ifndef QUANTD_CLIENT_QUANTCTL_BENCH_RATE_PLOT_H_
#define QUANTD_CLIENT_QUANTCTL_BENCH_RATE_PLOT_H_

#include <string>
#include <string_view>
#include <vector>

#include "client/quantctl/bench/cell.h"

namespace quantd::quantctl {

// An SVG that needs nothing beside it: GB/s of input by size, a line for each
// amax and number of callers (and rate), a dashed one of its colour for the
// echo. The title stands there as it is: none of a stranger's.
std::string RatePlot(std::string_view title, const std::vector<Cell>& cells);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_BENCH_RATE_PLOT_H_
