// The messages of the door, the socket where clients hand in shared memory. A
// client offers a descriptor with a message of fixed size, and gets an answer
// of the same size. SHARED_MEMORY.md has the bytes. Nothing here opens or
// inspects a descriptor.
#ifndef QUANTD_PROTO_MEMORY_OFFER_H_
#define QUANTD_PROTO_MEMORY_OFFER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/types/span.h"

namespace quantd::wire {

// The size of an offer, and of an answer.
inline constexpr size_t kOfferBytes = 128;
using OfferBytes = std::array<std::byte, kOfferBytes>;

inline constexpr size_t kRegionNameBytes = 16;

// What the descriptor refers to. Numbers are never reused.
enum class RegionKind : uint32_t {
  kUnspecified = 0,
  kMemfd = 1,           // memory of this host
  kCudaIpc = 2,         // no descriptor: memory of a GPU, by its CUDA handle
  kCudaDescriptor = 3,  // memory of a GPU, exported
  kCudaEvent = 4,       // no memory and no descriptor: an event of a GPU
};

// Whether an offer of that kind comes with a descriptor.
inline bool BringsDescriptor(RegionKind kind) {
  return kind != RegionKind::kCudaIpc && kind != RegionKind::kCudaEvent;
}
inline bool IsOfDevice(RegionKind kind) {
  return kind == RegionKind::kCudaIpc || kind == RegionKind::kCudaDescriptor ||
         kind == RegionKind::kCudaEvent;
}

struct Offer {
  RegionKind kind = RegionKind::kMemfd;
  bool read_only = false;  // the server maps it for reading alone
  uint64_t size = 0;       // size of the whole; 0 for an event
  // UUID of the GPU that the memory or event belongs to; else zero.
  std::array<std::byte, 16> uuid = {};
  // The cudaIpcMemHandle_t of kCudaIpc or the cudaIpcEventHandle_t of
  // kCudaEvent.
  std::array<std::byte, 64> ipc = {};
};

// Why a region is refused. Numbers are never reused.
enum class OfferAnswer : uint32_t {
  kTaken = 0,
  kMalformed = 1,     // not the message of an offer
  kDescriptors = 2,   // not exactly one, or one where none belongs
  kKind = 3,          // no kind of memory that this server knows
  kNotMemfd = 4,      // the descriptor is something else
  kNotSealed = 5,     // its size could change
  kSize = 6,          // zero, not whole pages, or not the size offered
  kNotPopulated = 7,  // pages of it are missing
  kNotMapped = 8,     // the system does not let the server map it
  kTooMuch = 9,       // bytes or regions, on this connection or in all
  kPeer = 10,         // the user is not allowed
  kConnections = 11,  // too many connections
  kDevice = 12,       // a GPU that the server does not work with
  kHandle = 13,       // a handle that the driver does not open
};

struct OfferReply {
  OfferAnswer answer = OfferAnswer::kTaken;
  std::string region;  // the region's name, if it was taken
  std::string text;    // the reason, for people; 103 bytes of it travel
};

inline OfferReply Refuse(OfferAnswer answer, std::string text) {
  return {answer, "", std::move(text)};
}

OfferBytes Write(const Offer& offer);
OfferBytes Write(const OfferReply& reply);
// Reads an offer; nullopt if the bytes are not one. `bytes` may be of any size.
// Unknown kinds and answers pass through.
std::optional<Offer> ReadOffer(absl::Span<const std::byte> bytes);
std::optional<OfferReply> ReadOfferReply(absl::Span<const std::byte> bytes);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_MEMORY_OFFER_H_
