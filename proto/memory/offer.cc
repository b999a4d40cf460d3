#include "proto/memory/offer.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace quantd::wire {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are little endian, and used as they are");

// The last byte is the version.
constexpr char kOfferMagic[8] = {'q', 'u', 'a', 'n', 't', 'd', 'M', 1};

constexpr uint32_t kReadOnly = 1;

struct OfferLayout {
  char magic[8];
  uint32_t kind;
  uint32_t flags;
  uint64_t size;
  char handle[104];  // of kinds to come; of kMemfd zero
};
static_assert(sizeof(OfferLayout) == kOfferBytes);

struct ReplyLayout {
  uint32_t answer;
  uint32_t reserved;
  char region[kRegionNameBytes];
  char text[104];  // ends with a zero
};
static_assert(sizeof(ReplyLayout) == kOfferBytes);

}  // namespace

OfferBytes Write(const Offer& offer) {
  OfferLayout layout = {};
  std::memcpy(layout.magic, kOfferMagic, sizeof(kOfferMagic));
  layout.kind = static_cast<uint32_t>(offer.kind);
  layout.flags = offer.read_only ? kReadOnly : 0;
  layout.size = offer.size;
  return std::bit_cast<OfferBytes>(layout);
}

std::optional<Offer> ReadOffer(absl::Span<const std::byte> bytes) {
  if (bytes.size() != kOfferBytes) return std::nullopt;
  OfferLayout layout;
  std::memcpy(&layout, bytes.data(), sizeof(layout));
  const bool zeros =
      std::all_of(std::begin(layout.handle), std::end(layout.handle),
                  [](char byte) { return byte == 0; });
  if (std::memcmp(layout.magic, kOfferMagic, sizeof(kOfferMagic)) != 0 ||
      (layout.flags & ~kReadOnly) != 0) {
    return std::nullopt;
  }
  const auto kind = static_cast<RegionKind>(layout.kind);
  if (kind == RegionKind::kMemfd && !zeros) return std::nullopt;
  return Offer{kind, (layout.flags & kReadOnly) != 0, layout.size};
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
