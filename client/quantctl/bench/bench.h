// Implements `quantctl bench`, which measures a server under load.
#ifndef QUANTD_CLIENT_QUANTCTL_BENCH_BENCH_H_
#define QUANTD_CLIENT_QUANTCTL_BENCH_BENCH_H_

#include <CLI/CLI.hpp>
#include <functional>

#include "client/quantctl/commands.h"

namespace quantd::quantctl {

void AddBench(CLI::App* app, Options* o,
              std::function<int(const Options&)>* run);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_BENCH_BENCH_H_
