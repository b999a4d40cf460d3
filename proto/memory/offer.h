// The messages on the memory socket, on which clients share memory with the
// server. A client sends a descriptor with an offer of fixed size and receives
// an answer of the same size. SHARED_MEMORY.md has the bytes. This code does
// not open or inspect descriptors.
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

// The size of an offer and of an answer, in bytes.
inline constexpr size_t kOfferBytes = 128;
using OfferBytes = std::array<std::byte, kOfferBytes>;

inline constexpr size_t kRegionNameBytes = 16;

// The memory or event that is offered. Numbers are never reused.
enum class RegionKind : uint32_t {
  kUnspecified = 0,
  kMemfd = 1,           // memory of this host
  kCudaIpc = 2,         // GPU memory, by its CUDA handle; no descriptor
  kCudaDescriptor = 3,  // GPU memory, exported as a descriptor
  kCudaEvent = 4,       // a GPU event; no memory, no descriptor
};

// Whether an offer of that kind has a descriptor.
inline bool BringsDescriptor(RegionKind kind) {
  return kind != RegionKind::kCudaIpc && kind != RegionKind::kCudaEvent;
}
inline bool IsOfDevice(RegionKind kind) {
  return kind == RegionKind::kCudaIpc || kind == RegionKind::kCudaDescriptor ||
         kind == RegionKind::kCudaEvent;
}

struct Offer {
  RegionKind kind = RegionKind::kMemfd;
  bool read_only = false;  // the server maps the memory read-only
  uint64_t size = 0;       // bytes of the whole region; 0 for an event
  // UUID of the GPU that the memory or event belongs to; zero for host memory.
  std::array<std::byte, 16> uuid = {};
  // The cudaIpcMemHandle_t of kCudaIpc or the cudaIpcEventHandle_t of
  // kCudaEvent.
  std::array<std::byte, 64> ipc = {};
};

// The reason why a region is refused. Numbers are never reused.
enum class OfferAnswer : uint32_t {
  kTaken = 0,
  kMalformed = 1,     // the message is not an offer
  kDescriptors = 2,   // the wrong number of descriptors for the kind
  kKind = 3,          // the kind is unknown
  kNotMemfd = 4,      // the descriptor is not a memfd
  kNotSealed = 5,     // the size of the memfd could change
  kSize = 6,          // zero, not whole pages, or not the offered size
  kNotPopulated = 7,  // some pages are not allocated
  kNotMapped = 8,     // the server failed to map the memory
  kTooMuch = 9,       // too many bytes or regions, in one connection or all
  kPeer = 10,         // the user has no permission
  kConnections = 11,  // too many connections
  kDevice = 12,       // the server does not use that GPU
  kHandle = 13,       // the driver cannot open the handle
};

struct OfferReply {
  OfferAnswer answer = OfferAnswer::kTaken;
  std::string region;  // the region's name, if it was accepted
  std::string text;    // the reason, for people; cut to 103 bytes
};

inline OfferReply Refuse(OfferAnswer answer, std::string text) {
  return {answer, "", std::move(text)};
}

OfferBytes Write(const Offer& offer);
OfferBytes Write(const OfferReply& reply);
// Reads an offer; nullopt if the bytes are not an offer. `bytes` may be of any
// size. Unknown kinds and answers are kept.
std::optional<Offer> ReadOffer(absl::Span<const std::byte> bytes);
std::optional<OfferReply> ReadOfferReply(absl::Span<const std::byte> bytes);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_MEMORY_OFFER_H_
