#include "kernels/device/devices.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/device/device_memory.h"
#include "kernels/device/health/fault_backend.h"
#ifdef QUANTD_HAVE_CUDA
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device_mapping.h"
#endif

namespace quantd {
namespace {

// The ordinal in a name: "cuda:3" with kind "cuda" gives 3, "cuda" 0, anything
// else nullopt.
std::optional<int> Ordinal(std::string_view name, std::string_view kind) {
  if (name == kind) return 0;
  int n = 0;
  if (name.size() > kind.size() + 1 && name.substr(0, kind.size()) == kind &&
      name[kind.size()] == ':' &&
      absl::SimpleAtoi(std::string(name.substr(kind.size() + 1)), &n) &&
      n >= 0) {
    return n;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(
    std::string_view name, const BackendOptions& options) {
  if (const auto n = Ordinal(name, "cpu")) {
    return cpu::Open(
        options.name.empty() ? fmt::format("cpu:{}", *n) : options.name,
        options);
  }
  if (name == "memcpy") return cpu::OpenMemcpy(options);
  if (const auto n = Ordinal(name, "cuda")) {
#ifdef QUANTD_HAVE_CUDA
    return cuda::Open(*n, options);
#else
    return absl::NotFoundError(CudaUnavailableReason());
#endif
  }
  if (name.starts_with("fault:")) {
    const auto device = ParseFaultDevice(name);
    if (!device.ok()) return device.status();
    auto inner = OpenBackend(device->inner, options);
    if (!inner.ok()) return inner.status();
    auto control = std::make_shared<FaultControl>();
    control->Arrange(device->faults);
    return MakeFaultBackend(device->name, *std::move(inner),
                            std::move(control));
  }
  return absl::InvalidArgumentError(
      fmt::format("device '{}': expected cpu, cpu:N, cuda or cuda:N", name));
}

std::vector<std::string> ListBackends() {
  std::vector<std::string> names;
#ifdef QUANTD_HAVE_CUDA
  for (int i = 0; i < cuda::DeviceCount(); ++i) {
    names.push_back(fmt::format("cuda:{}", i));
  }
#endif
  names.push_back("cpu:0");
  return names;
}

std::vector<std::string> DefaultBackends() {
  std::vector<std::string> names = ListBackends();
  if (names.size() > 1) names.pop_back();
  return names;
}

std::vector<std::string> ListCpuIsas() { return cpu::ListIsas(); }

std::string CudaUnavailableReason() {
#ifdef QUANTD_HAVE_CUDA
  return cuda::UnavailableReason();
#else
  return "no CUDA device: this program was built without CUDA, like the files "
         "of a release; build it from source with nvcc 13 or newer";
#endif
}

absl::StatusOr<std::unique_ptr<DeviceMapping>> DeviceMapping::Open(
    [[maybe_unused]] const DeviceHandle& handle, [[maybe_unused]] size_t size) {
#ifdef QUANTD_HAVE_CUDA
  return cuda::OpenMapping(handle, size);
#else
  return absl::NotFoundError(
      "memory of a GPU: expected memory of the host, because this server "
      "uses no GPU");
#endif
}

absl::StatusOr<std::unique_ptr<EventMapping>> EventMapping::Open(
    [[maybe_unused]] const DeviceHandle& handle) {
#ifdef QUANTD_HAVE_CUDA
  return cuda::OpenEvent(handle);
#else
  return absl::NotFoundError(
      "an event of a GPU: expected none, because this server uses no GPU");
#endif
}

PageLock::PageLock([[maybe_unused]] absl::Span<std::byte> memory,
                   [[maybe_unused]] bool writable) {
#ifdef QUANTD_HAVE_CUDA
  if (cuda::PageLock(memory.data(), memory.size(), writable)) {
    memory_ = memory.data();
  }
#endif
}

PageLock::~PageLock() {
#ifdef QUANTD_HAVE_CUDA
  if (memory_ != nullptr) cuda::PageUnlock(memory_);
#endif
}

}  // namespace quantd
