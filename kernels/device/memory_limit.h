// The memory limit of the control groups of this process.
#ifndef QUANTD_KERNELS_DEVICE_MEMORY_LIMIT_H_
#define QUANTD_KERNELS_DEVICE_MEMORY_LIMIT_H_

#include <cstddef>
#include <string>

namespace quantd {

// The lowest limit of this process's control group and all of its ancestors, as
// far as they are visible: memory.max and memory.high of version 2,
// memory.limit_in_bytes of version 1. SIZE_MAX: no limit.
//
// `root` is put before every path that is read, starting with /proc/self/cgroup
// and /proc/self/mountinfo, so that a test can provide its own files.
size_t ControlGroupMemoryLimit(const std::string& root = "");

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_MEMORY_LIMIT_H_
