// The CPU as a device. Threads compute different rows; the vector lanes of a
// thread compute different parts of a tile.
#ifndef QUANTD_KERNELS_CPU_CPU_BACKEND_H_
#define QUANTD_KERNELS_CPU_CPU_BACKEND_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/backend.h"

namespace quantd::cpu {

// Opens the CPU. INVALID_ARGUMENT for an instruction set that is unknown or
// that this machine lacks.
absl::StatusOr<std::unique_ptr<Backend>> Open(std::string name,
                                              const BackendOptions& options);

// Opens a fake device for benchmarks: it has the same staging, slots and sizes,
// but Run fills the output with copies of the input.
absl::StatusOr<std::unique_ptr<Backend>> OpenMemcpy(
    const BackendOptions& options);

// The instruction sets that this machine supports, from "baseline" to the
// fastest.
std::vector<std::string> ListIsas();

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_CPU_BACKEND_H_
