// Text that describes a device's choice of kernels.
#ifndef QUANTD_KERNELS_DEVICE_KERNEL_NAMES_H_
#define QUANTD_KERNELS_DEVICE_KERNEL_NAMES_H_

#include <string>
#include <string_view>

namespace quantd {

// Appends ", role name" to `text`; nothing for "-", which stands for no kernel.
inline void AddKernel(std::string_view role, std::string_view name,
                      std::string* text) {
  if (name == "-") return;
  if (!text->empty()) *text += ", ";
  text->append(role).append(" ").append(name);
}

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_KERNEL_NAMES_H_
