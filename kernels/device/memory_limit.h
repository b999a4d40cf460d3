// How much memory the control groups of this process leave it.
#ifndef QUANTD_KERNELS_DEVICE_MEMORY_LIMIT_H_
#define QUANTD_KERNELS_DEVICE_MEMORY_LIMIT_H_

#include <cstddef>
#include <string>

namespace quantd {

// The least limit of this process's control group and of all above it, as far
// as they can be seen from here: memory.max and memory.high of version 2,
// memory.limit_in_bytes of version 1. SIZE_MAX: there is none.
//
// `root` stands before every path that is read, /proc/self/cgroup and
// /proc/self/mountinfo first, so that a test can bring a machine of its own.
size_t ControlGroupMemoryLimit(const std::string& root = "");

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_MEMORY_LIMIT_H_
