// How a device's choice of kernels is told.
#ifndef QUANTD_KERNELS_DEVICE_KERNEL_NAMES_H_
#define QUANTD_KERNELS_DEVICE_KERNEL_NAMES_H_

#include <string>
#include <string_view>

namespace quantd {

// Adds ", role name" to `text`. Nothing for "-", the name of no kernel.
inline void AddKernel(std::string_view role, std::string_view name,
                      std::string* text) {
  if (name == "-") return;
  if (!text->empty()) *text += ", ";
  text->append(role).append(" ").append(name);
}

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_KERNEL_NAMES_H_
