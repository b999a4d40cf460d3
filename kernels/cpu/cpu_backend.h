// The CPU as a device: threads share its rows, and vector lanes share a tile.
#ifndef QUANTD_KERNELS_CPU_CPU_BACKEND_H_
#define QUANTD_KERNELS_CPU_CPU_BACKEND_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/backend.h"

namespace quantd::cpu {

// INVALID_ARGUMENT for an ISA that does not exist or that this machine lacks.
absl::StatusOr<std::unique_ptr<Backend>> Open(std::string name,
                                              const BackendOptions& options);

// For benchmarks: the same staging, slots and sizes, but Run copies input
// bytes to the output, over and over until it is full.
absl::StatusOr<std::unique_ptr<Backend>> OpenMemcpy(
    const BackendOptions& options);

// The instruction sets that this machine can run, from "baseline" to the best.
std::vector<std::string> ListIsas();

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_CPU_BACKEND_H_
