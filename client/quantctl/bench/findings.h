// How a bench's cells are shown.
#ifndef QUANTD_CLIENT_QUANTCTL_BENCH_FINDINGS_H_
#define QUANTD_CLIENT_QUANTCTL_BENCH_FINDINGS_H_

#include <nlohmann/json.hpp>
#include <vector>

#include "client/quantctl/bench/cell.h"

namespace quantd::quantctl {

// A table on stdout, with columns about the echo where any cell has one.
void PrintCells(const std::vector<Cell>& cells);

// "cells" of the report.
nlohmann::ordered_json JsonOf(const std::vector<Cell>& cells);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_BENCH_FINDINGS_H_
