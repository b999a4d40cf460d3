#include "tests/testing/lendable.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#ifdef QUANTD_HAVE_CUDA
#include <cuda.h>
#include <cuda_runtime_api.h>
#endif

namespace quantd {
namespace {

constexpr std::byte kUntouched{0xA5};
constexpr size_t kGuard = 64;
// Memory up to this size is filled, so that bytes that were not written show;
// of larger memory only the guards are filled, which is much faster.
constexpr size_t kFilled = size_t{1} << 20;

bool OnDevice(LendableKind kind) {
  return kind == LendableKind::kDevice || kind == LendableKind::kDeviceOdd;
}

#ifdef QUANTD_HAVE_CUDA
void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "lendable memory: %s\n", cudaGetErrorString(error));
  std::abort();
}
#endif

void Copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
#ifdef QUANTD_HAVE_CUDA
  Check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  // A copy from pageable memory may still be under way.
  Check(cudaStreamSynchronize(cudaStreamLegacy));
#else
  std::memcpy(to, from, bytes);
#endif
}

using Piece = absl::Span<std::byte>;

// Page-locked and device memory is slow to allocate: this keeps what each
// thread allocated, for use again.
class Kept {
 public:
  ~Kept() {
#ifdef QUANTD_HAVE_CUDA
    for (auto& [device, pieces] : free_) {
      for (const Piece& piece : pieces) {
        // The driver may have been unloaded already.
        device ? cudaFree(piece.data()) : cudaFreeHost(piece.data());
      }
    }
#endif
  }
  Piece Take(bool device, size_t bytes) {
    std::vector<Piece>& pieces = free_[device];
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].size() < bytes) continue;
      const Piece found = pieces[i];
      pieces.erase(pieces.begin() + static_cast<ptrdiff_t>(i));
      return found;
    }
    bytes = std::max<size_t>(2 * bytes, 1 << 16);
    void* made = nullptr;
#ifdef QUANTD_HAVE_CUDA
    Check(device ? cudaMalloc(&made, bytes) : cudaMallocHost(&made, bytes));
#endif
    return {static_cast<std::byte*>(made), bytes};
  }
  void Give(bool device, Piece piece) { free_[device].push_back(piece); }

 private:
  std::map<bool, std::vector<Piece>> free_;
};

Kept& OfThread() {
  thread_local Kept kept;
  return kept;
}

}  // namespace

struct Lendable::Store {
  LendableKind kind;
  std::vector<std::byte> pageable;
  Piece piece;
  std::byte* begin = nullptr;  // the whole memory, including the guards
  size_t bytes = 0;
};

std::vector<LendableKind> LendableKinds(std::string_view device) {
  if (device == "cpu") return {LendableKind::kPageable};
  if (device != "cuda") return {};
  return {LendableKind::kPageable, LendableKind::kPageLocked,
          LendableKind::kDevice, LendableKind::kDeviceOdd};
}

const char* Name(LendableKind kind) {
  switch (kind) {
    case LendableKind::kPageable:
      return "pageable";
    case LendableKind::kPageLocked:
      return "page-locked";
    case LendableKind::kDevice:
      return "device";
    case LendableKind::kDeviceOdd:
      break;
  }
  return "unaligned device";
}

void CopyAnywhere(void* to, const void* from, size_t bytes) {
  Copy(to, from, bytes);
}

void* AllocateOnDevice([[maybe_unused]] size_t bytes) {
  void* made = nullptr;
#ifdef QUANTD_HAVE_CUDA
  Check(cudaMalloc(&made, bytes));
#endif
  return made;
}

void FreeOnDevice([[maybe_unused]] void* memory) {
#ifdef QUANTD_HAVE_CUDA
  Check(cudaFree(memory));
#endif
}

size_t FreeDeviceMemory() {
  size_t free = 0;
#ifdef QUANTD_HAVE_CUDA
  size_t total = 0;
  Check(cudaMemGetInfo(&free, &total));
#endif
  return free;
}

#ifdef QUANTD_HAVE_CUDA
namespace {

template <typename Function>
Function Driver(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  Check(cudaGetDriverEntryPointByVersion(name, &function, 12000,
                                         cudaEnableDefault, &found));
  return reinterpret_cast<Function>(function);
}

}  // namespace
#endif

absl::Span<std::byte> CreateExportable([[maybe_unused]] size_t bytes) {
#ifdef QUANTD_HAVE_CUDA
  Check(cudaFree(nullptr));
  bytes = (bytes + (size_t{2} << 20) - 1) >> 21 << 21;
  CUmemAllocationProp what = {};
  what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  what.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemGenericAllocationHandle memory = 0;
  CUdeviceptr address = 0;
  CUmemAccessDesc access = {what.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (Driver<decltype(&cuMemCreate)>("cuMemCreate")(&memory, bytes, &what, 0) !=
          CUDA_SUCCESS ||
      Driver<decltype(&cuMemAddressReserve)>("cuMemAddressReserve")(
          &address, bytes, 0, 0, 0) != CUDA_SUCCESS ||
      Driver<decltype(&cuMemMap)>("cuMemMap")(address, bytes, 0, memory, 0) !=
          CUDA_SUCCESS ||
      Driver<decltype(&cuMemSetAccess)>("cuMemSetAccess")(
          address, bytes, &access, 1) != CUDA_SUCCESS) {
    return {};
  }
  return {reinterpret_cast<std::byte*>(address), bytes};
#else
  return {};
#endif
}

bool IsPageLocked([[maybe_unused]] absl::Span<const std::byte> memory) {
#ifdef QUANTD_HAVE_CUDA
  cudaPointerAttributes of;
  return cudaPointerGetAttributes(&of, memory.data()) == cudaSuccess &&
         of.type == cudaMemoryTypeHost;
#else
  return false;
#endif
}

Lendable::Lendable(LendableKind kind, const TensorSpec& spec)
    : store_(std::make_unique<Store>()), size_(spec.size) {
  const size_t odd = kind == LendableKind::kDevice ? 0 : SizeOf(spec.dtype);
  store_->kind = kind;
  store_->bytes = kGuard + odd + size_ + kGuard;
  if (kind == LendableKind::kPageable) {
    store_->pageable.resize(store_->bytes);
    store_->begin = store_->pageable.data();
  } else {
    store_->piece = OfThread().Take(OnDevice(kind), store_->bytes);
    store_->begin = store_->piece.data();
  }
  data_ = store_->begin + kGuard + odd;
  const std::vector<std::byte> untouched(
      size_ < kFilled ? store_->bytes : kGuard + odd, kUntouched);
  Copy(store_->begin, untouched.data(), untouched.size());
  Copy(data_ + size_, untouched.data(), kGuard);
}

Lendable::Lendable(Lendable&&) noexcept = default;
Lendable& Lendable::operator=(Lendable&&) noexcept = default;

Lendable::~Lendable() {
  if (store_ == nullptr || store_->kind == LendableKind::kPageable) return;
  OfThread().Give(OnDevice(store_->kind), store_->piece);
}

void Lendable::Fill(absl::Span<const uint8_t> bytes) {
  Copy(data_, bytes.data(), bytes.size());
}

std::vector<std::byte> Lendable::Bytes() const {
  std::vector<std::byte> bytes(size_);
  Copy(bytes.data(), data_, size_);
  return bytes;
}

bool Lendable::intact() const {
  const std::byte* const end = data_ + size_;
  const std::pair<const std::byte*, size_t> guards[] = {
      {store_->begin, static_cast<size_t>(data_ - store_->begin)},
      {end, static_cast<size_t>(store_->begin + store_->bytes - end)}};
  return std::all_of(
      std::begin(guards), std::end(guards), [](const auto& guard) {
        std::vector<std::byte> bytes(guard.second);
        Copy(bytes.data(), guard.first, bytes.size());
        return std::all_of(bytes.begin(), bytes.end(),
                           [](std::byte b) { return b == kUntouched; });
      });
}

}  // namespace quantd
