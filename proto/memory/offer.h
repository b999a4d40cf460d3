// What passes through the door for shared memory, both ways: a client offers a
// descriptor with a message of fixed size, and gets one of the same size back.
// SHARED_MEMORY.md, has the bytes. Nothing here opens or looks at a
// descriptor.
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

// Of either message.
inline constexpr size_t kOfferBytes = 128;
using OfferBytes = std::array<std::byte, kOfferBytes>;

inline constexpr size_t kRegionNameBytes = 16;

// What the descriptor is. Numbers are never reused.
enum class RegionKind : uint32_t {
  kUnspecified = 0,
  kMemfd = 1,           // memory of this host
  kCudaIpc = 2,         // no descriptor: memory of a GPU, by its CUDA handle
  kCudaDescriptor = 3,  // memory of a GPU, exported
  kCudaEvent = 4,       // no memory and no descriptor: an event of a GPU
};

// Whether a descriptor comes with an offer of that kind.
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
  uint64_t size = 0;       // of the whole; of an event 0
  // Of what is a GPU's; else zero.
  std::array<std::byte, 16> uuid = {};  // the GPU's
  // Of kCudaIpc its cudaIpcMemHandle_t, of kCudaEvent its cudaIpcEventHandle_t.
  std::array<std::byte, 64> ipc = {};
};

// Why a region is not taken. Numbers are never reused.
enum class OfferAnswer : uint32_t {
  kTaken = 0,
  kMalformed = 1,     // not the message of an offer
  kDescriptors = 2,   // not exactly one, or one where there is none
  kKind = 3,          // no kind of memory that this server knows
  kNotMemfd = 4,      // the descriptor is something else
  kNotSealed = 5,     // its size could change
  kSize = 6,          // none, not of whole pages, or not as offered
  kNotPopulated = 7,  // pages of it are missing
  kNotMapped = 8,     // the system does not let the server map it
  kTooMuch = 9,       // of this connection, or of all: bytes or regions
  kPeer = 10,         // of a user who may not
  kConnections = 11,  // too many
  kDevice = 12,       // of a GPU that the server does not work with
  kHandle = 13,       // a handle that the driver does not open
};

struct OfferReply {
  OfferAnswer answer = OfferAnswer::kTaken;
  std::string region;  // its name, once taken
  std::string text;    // why not, for people; 103 bytes of it travel
};

inline OfferReply Refuse(OfferAnswer answer, std::string text) {
  return {answer, "", std::move(text)};
}

OfferBytes Write(const Offer& offer);
OfferBytes Write(const OfferReply& reply);
// nullopt: it is none. `bytes` may be of any size. Kinds and answers that are
// not known pass through.
std::optional<Offer> ReadOffer(absl::Span<const std::byte> bytes);
std::optional<OfferReply> ReadOfferReply(absl::Span<const std::byte> bytes);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_MEMORY_OFFER_H_
