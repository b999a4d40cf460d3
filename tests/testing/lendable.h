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
  kPageable,    // aligned for its elements and no better
  kPageLocked,  // the same, page-locked by CUDA
  kDevice,      // of the backend's device, aligned as payloads are
  kDeviceOdd,   // of the device, aligned for its elements and no better
};

// Those that a device of that kind takes: "cpu" or "cuda", else none.
std::vector<LendableKind> LendableKinds(std::string_view device);
const char* Name(LendableKind kind);

// Whether CUDA has page-locked it; false where there is no CUDA.
bool IsPageLocked(absl::Span<const std::byte> memory);

// Between the host's memory and the device's, either way; it is there when this
// returns. Without CUDA of the host's alone.
void CopyAnywhere(void* to, const void* from, size_t bytes);

// Memory of device 0, which only tests that CUDA is there for ask for.
void* AllocateOnDevice(size_t bytes);
void FreeOnDevice(void* memory);
size_t FreeDeviceMemory();
// Memory by cuMemCreate, with a descriptor to export; never freed. Empty if the
// driver cannot make it.
absl::Span<std::byte> CreateExportable(size_t bytes);

// Memory for one tensor, between bytes that nobody may touch.
class Lendable {
 public:
  Lendable(LendableKind kind, const TensorSpec& spec);
  Lendable(Lendable&&) noexcept;
  Lendable& operator=(Lendable&&) noexcept;
  ~Lendable();

  // What is lent; only of pageable and of page-locked memory may the host read
  // and write it.
  absl::Span<std::byte> span() const { return {data_, size_}; }
  // From the host, of the tensor's size.
  void Fill(absl::Span<const uint8_t> bytes);
  // To the host.
  std::vector<std::byte> Bytes() const;
  bool intact() const;

 private:
  struct Store;
  std::unique_ptr<Store> store_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_TESTING_LENDABLE_H_
