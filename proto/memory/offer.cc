#include "proto/memory/offer.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace quantd::wire {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are little endian and are used without conversion");

// The last byte is the version.
constexpr char kOfferMagic[8] = {'q', 'u', 'a', 'n', 't', 'd', 'M', 1};

constexpr uint32_t kReadOnly = 1;

struct OfferLayout {
  char magic[8];
  uint32_t kind;
  uint32_t flags;
  uint64_t size;
  // UUID of the GPU, or zero
  std::array<std::byte, 16> uuid;
  std::array<std::byte, 64> ipc;
  std::array<std::byte, 24> reserved;
};
static_assert(sizeof(OfferLayout) == kOfferBytes);

template <typename Bytes>
bool IsZero(const Bytes& bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte b) { return b == std::byte{0}; });
}

struct ReplyLayout {
  uint32_t answer;
  uint32_t reserved;
  char region[kRegionNameBytes];
  char text[104];  // terminated by a zero
};
static_assert(sizeof(ReplyLayout) == kOfferBytes);

}  // namespace

OfferBytes Write(const Offer& offer) {
  OfferLayout layout = {};
  std::memcpy(layout.magic, kOfferMagic, sizeof(kOfferMagic));
  layout.kind = static_cast<uint32_t>(offer.kind);
  layout.flags = offer.read_only ? kReadOnly : 0;
  layout.size = offer.size;
  layout.uuid = offer.uuid;
  layout.ipc = offer.ipc;
  return std::bit_cast<OfferBytes>(layout);
}

std::optional<Offer> ReadOffer(absl::Span<const std::byte> bytes) {
  if (bytes.size() != kOfferBytes) return std::nullopt;
  OfferLayout layout;
  std::memcpy(&layout, bytes.data(), sizeof(layout));
  if (std::memcmp(layout.magic, kOfferMagic, sizeof(kOfferMagic)) != 0 ||
      (layout.flags & ~kReadOnly) != 0) {
    return std::nullopt;
  }
  const auto kind = static_cast<RegionKind>(layout.kind);
  const bool known = kind == RegionKind::kMemfd || IsOfDevice(kind);
  const bool has_handle = IsOfDevice(kind) && !BringsDescriptor(kind);
  if (known &&
      (!IsZero(layout.reserved) || (!has_handle && !IsZero(layout.ipc)) ||
       (!IsOfDevice(kind) && !IsZero(layout.uuid)))) {
    return std::nullopt;
  }
  if (kind == RegionKind::kCudaEvent &&
      (layout.flags != 0 || layout.size != 0)) {
    return std::nullopt;
  }
  return Offer{kind, (layout.flags & kReadOnly) != 0, layout.size, layout.uuid,
               layout.ipc};
}

OfferBytes Write(const OfferReply& reply) {
  ReplyLayout layout = {};
  layout.answer = static_cast<uint32_t>(reply.answer);
  reply.region.copy(layout.region, sizeof(layout.region));
  reply.text.copy(layout.text, sizeof(layout.text) - 1);
  return std::bit_cast<OfferBytes>(layout);
}

std::optional<OfferReply> ReadOfferReply(absl::Span<const std::byte> bytes) {
  if (bytes.size() != kOfferBytes) return std::nullopt;
  ReplyLayout layout;
  std::memcpy(&layout, bytes.data(), sizeof(layout));
  OfferReply reply;
  reply.answer = static_cast<OfferAnswer>(layout.answer);
  if (reply.answer == OfferAnswer::kTaken) {
    reply.region.assign(layout.region, sizeof(layout.region));
  }
  reply.text.assign(layout.text, strnlen(layout.text, sizeof(layout.text)));
  return reply;
}

}  // namespace quantd::wire
