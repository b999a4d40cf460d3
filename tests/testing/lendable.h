// Memory of every kind that a caller may lend to a backend.
#ifndef QUANTD_TESTS_TESTING_LENDABLE_H_
#define QUANTD_TESTS_TESTING_LENDABLE_H_

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "quantd/plan.h"

namespace quantd {

enum class LendableKind {
  kPageable,    // aligned only for its elements
  kPageLocked,  // as kPageable, but page-locked by CUDA
  kDevice,      // memory of the backend's device, aligned as payloads are
  kDeviceOdd,   // as kDevice, but aligned only for its elements
};

// The kinds that a device ("cpu" or "cuda") supports; none for others.
std::vector<LendableKind> LendableKinds(std::string_view device);
const char* Name(LendableKind kind);

// Whether CUDA has page-locked the memory; false without CUDA.
bool IsPageLocked(absl::Span<const std::byte> memory);

// Copies between host and device memory, in either direction, and waits.
// Without CUDA only host memory.
void CopyAnywhere(void* to, const void* from, size_t bytes);

// Allocates memory of device 0. Only for tests that require CUDA.
void* AllocateOnDevice(size_t bytes);
void FreeOnDevice(void* memory);
size_t FreeDeviceMemory();
// Allocates with cuMemCreate, with an exportable descriptor; never freed. Empty
// if the driver cannot do this.
absl::Span<std::byte> CreateExportable(size_t bytes);

// Memory for one tensor between guard bytes.
class Lendable {
 public:
  Lendable(LendableKind kind, const TensorSpec& spec);
  Lendable(Lendable&&) noexcept;
  Lendable& operator=(Lendable&&) noexcept;
  ~Lendable();

  // The memory to lend; the host may access only pageable and page-locked
  // memory.
  absl::Span<std::byte> span() const { return {data_, size_}; }
  // Copies from the host; `bytes` has the tensor's size.
  void Fill(absl::Span<const uint8_t> bytes);
  // Copies to the host.
  std::vector<std::byte> Bytes() const;
  // Whether the guard bytes are unchanged.
  bool intact() const;

 private:
  struct Store;
  std::unique_ptr<Store> store_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_TESTING_LENDABLE_H_
