// The CPU as a device: threads share its rows, and vector lanes share a tile.
#ifndef QUANTD_KERNELS_CPU_CPU_BACKEND_H_
#define QUANTD_KERNELS_CPU_CPU_BACKEND_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/backend.h"

namespace quantd::cpu {

// Opens the CPU. INVALID_ARGUMENT for an unknown instruction set, or one that
// this machine lacks.
absl::StatusOr<std::unique_ptr<Backend>> Open(std::string name,
                                              const BackendOptions& options);

// Opens a fake for benchmarks: the same staging, slots and sizes, but Run fills
// the output with copies of the input.
absl::StatusOr<std::unique_ptr<Backend>> OpenMemcpy(
    const BackendOptions& options);

// The instruction sets of this machine, from "baseline" to the best.
std::vector<std::string> ListIsas();

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_CPU_BACKEND_H_
