#include "client/call/endpoint.h"

#include <sys/mman.h>

#include <algorithm>

#include "client/memory/cuda_driver.h"
#include "fmt/format.h"

namespace quantd::client {
namespace {

// Limit in bytes of the page-locked or shared memory that the pool keeps for
// reuse.
constexpr size_t kPooled = size_t{1} << 30;
// Smaller results, such as an amax, do not get memory from the pool.
constexpr size_t kWorthPlacing = 64;

}  // namespace

Endpoint::Endpoint()
    : pool_(HostPool::Create(
          {[this](size_t bytes) { return AllocateHost(bytes); },
           [this](const HostMemory& memory) { return Sound(memory); }},
          kPooled)) {}

absl::StatusOr<HostMemory> Endpoint::TakeHost(size_t bytes) {
  return pool_->Take(bytes);
}

HostMemory Endpoint::PlaceResults(const Plan& plan,
                                  std::vector<Destination>* into) {
  std::vector<const TensorSpec*> parts;
  size_t bytes = 0;
  for (const TensorSpec& part : plan.outputs()) {
    const bool given =
        std::any_of(into->begin(), into->end(),
                    [&](const Destination& d) { return d.kind == part.kind; });
    if (given) continue;
    parts.push_back(&part);
    bytes += part.size;
  }
  if (bytes < kWorthPlacing) return {};
  HostMemory memory = pool_->TakeWithin(plan.output_bytes());
  if (memory.bytes().empty()) return {};
  for (const TensorSpec* part : parts) {
    into->push_back(
        {part->kind, memory.bytes().subspan(part->offset, part->size)});
  }
  return memory;
}

absl::StatusOr<HostMemory> Endpoint::AllocateHost(size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        fmt::format("no memory for {} bytes", bytes));
  }
  // A hint to use huge pages.
  madvise(data, bytes, MADV_HUGEPAGE);
  std::shared_ptr<const void> owner(
      data, [bytes](void* mapped) { munmap(mapped, bytes); });
  return HostMemory({static_cast<std::byte*>(data), bytes}, std::move(owner),
                    false);
}

absl::StatusOr<HostMemory> Endpoint::RegisterHost(int,
                                                  absl::Span<std::byte> mapping,
                                                  HostUse) {
  return HostMemory(mapping, nullptr, false);
}

absl::StatusOr<DeviceMemory> Endpoint::AllocateDevice(int ordinal,
                                                      size_t bytes) {
  const auto driver = CudaDriver::Get();
  if (!driver.ok()) return driver.status();
  const auto made = (*driver)->Allocate(ordinal, bytes);
  if (!made.ok()) return made.status();
  std::shared_ptr<const void> owner(
      made->bytes.data(),
      [made = *made, driver = *driver](const void*) { driver->Free(made); });
  return DeviceMemory(made->bytes.first(bytes), std::move(owner));
}

absl::StatusOr<DeviceMemory> Endpoint::RegisterDevice(const void* address) {
  const auto driver = CudaDriver::Get();
  if (!driver.ok()) return driver.status();
  const auto found = (*driver)->Find(address);
  if (!found.ok()) return found.status();
  return DeviceMemory(found->bytes, nullptr);
}

absl::StatusOr<DeviceEvent> Endpoint::RegisterEvent(int, void*) {
  return absl::UnimplementedError(
      "events are shared with servers, and a client without memory_socket "
      "shares none");
}

std::optional<std::string_view> LocalDevice(std::string_view target) {
  constexpr std::string_view kLocal = "local";
  if (!target.starts_with(kLocal)) return std::nullopt;
  target.remove_prefix(kLocal.size());
  if (target.empty()) return target;
  const bool port =
      target.size() > 1 &&
      target.find_first_not_of("0123456789", 1) == std::string_view::npos;
  if (target[0] != ':' || port) return std::nullopt;
  return target.substr(1);
}

}  // namespace quantd::client
