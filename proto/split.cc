// Finding the payload, and bringing it home.
//
// Top-level fields are walked where they lie, with the rules of protobuf's own
// C++ parser (which are laxer than the specification: a tag of five bytes
// drops its high bits; lengths may not reach 2 GiB). What is inside a field is
// left to protobuf, which parses the head.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "absl/strings/cord.h"
#include "fmt/format.h"
#include "kernels/plan/field_error.h"
#include "proto/wire.h"

namespace quantd::wire {
namespace {

constexpr uint32_t kPayloadTag =
    v1::QuantizeRequest::kPayloadFieldNumber << 3 | 2;
static_assert(v1::DequantizeRequest::kPayloadFieldNumber == 101 &&
              v1::RhtAmaxRequest::kPayloadFieldNumber == 101 &&
              v1::ApplyRhtRequest::kPayloadFieldNumber == 101 &&
              kPayloadTag == (101 << 3 | 2));

// protobuf's: groups nest 100 deep, and a length stays below INT_MAX - 16.
constexpr int kMaxGroups = 100;
constexpr uint64_t kMaxLength = std::numeric_limits<int32_t>::max() - 16;

// A place in the slices. Cheap to copy: a copy is a bookmark.
class Cursor {
 public:
  explicit Cursor(Slices slices) : slices_(slices) {
    for (std::string_view s : slices) remaining_ += s.size();
    SkipEmpty();
  }

  size_t position() const { return position_; }
  size_t remaining() const { return remaining_; }

  // Needs remaining() > 0.
  uint8_t Take() {
    const uint8_t byte = static_cast<uint8_t>(slices_[index_][offset_]);
    ++offset_;
    ++position_;
    --remaining_;
    SkipEmpty();
    return byte;
  }

  // Calls f(piece) for each piece of the next n bytes; needs n <= remaining().
  template <typename F>
  void Walk(size_t n, F f) {
    position_ += n;
    remaining_ -= n;
    while (n > 0) {
      const std::string_view piece = slices_[index_].substr(offset_, n);
      f(piece);
      offset_ += piece.size();
      n -= piece.size();
      SkipEmpty();
    }
  }
  bool Skip(uint64_t n) {
    if (n > remaining_) return false;
    Walk(n, [](std::string_view) {});
    return true;
  }

  // At most five bytes; bits beyond 32 are dropped, as protobuf does. 0 when
  // there is no tag, and for a tag no field may have.
  uint32_t Tag() {
    uint32_t tag = 0;
    for (int i = 0; i < 5 && remaining_ > 0; ++i) {
      const uint8_t byte = Take();
      tag |= static_cast<uint32_t>(byte & 0x7f) << (7 * i);
      if (byte < 0x80) return tag >> 3 == 0 ? 0 : tag;
    }
    return 0;
  }

  bool SkipVarint() {
    for (int i = 0; i < 10 && remaining_ > 0; ++i) {
      if (Take() < 0x80) return true;
    }
    return false;
  }

  // A length that fits into what remains.
  std::optional<size_t> Length() {
    uint64_t length = 0;
    for (int i = 0; i < 5 && remaining_ > 0; ++i) {
      const uint8_t byte = Take();
      length |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (byte >= 0x80) continue;
      if (length > kMaxLength || length > remaining_) return std::nullopt;
      return static_cast<size_t>(length);
    }
    return std::nullopt;
  }

 private:
  void SkipEmpty() {
    while (index_ < slices_.size() && offset_ == slices_[index_].size()) {
      ++index_;
      offset_ = 0;
    }
  }

  Slices slices_;
  size_t index_ = 0;   // slice
  size_t offset_ = 0;  // byte in it
  size_t position_ = 0;
  size_t remaining_ = 0;
};

enum class Skipped { kOk, kMalformed, kTooLong };

// Skips what follows `tag`. Gives up on a group once it is over `limit`
// bytes, because a group does not say how long it is.
Skipped SkipField(uint32_t tag, size_t limit, Cursor& in) {
  std::array<uint32_t, kMaxGroups> open;  // field numbers
  int depth = 0;
  const size_t start = in.position();
  while (true) {
    switch (tag & 7) {
      case 0:
        if (!in.SkipVarint()) return Skipped::kMalformed;
        break;
      case 1:
        if (!in.Skip(8)) return Skipped::kMalformed;
        break;
      case 2: {
        const std::optional<size_t> length = in.Length();
        if (!length) return Skipped::kMalformed;
        in.Skip(*length);
        break;
      }
      case 3:
        if (depth == kMaxGroups) return Skipped::kMalformed;
        open[depth++] = tag >> 3;
        break;
      case 4:
        if (depth == 0 || open[--depth] != tag >> 3) {
          return Skipped::kMalformed;
        }
        break;
      case 5:
        if (!in.Skip(4)) return Skipped::kMalformed;
        break;
      default:
        return Skipped::kMalformed;
    }
    if (depth == 0) return Skipped::kOk;
    if (in.position() - start > limit) return Skipped::kTooLong;
    tag = in.Tag();
    if (tag == 0) return Skipped::kMalformed;
  }
}

// Where a request has a list of numbers: in the message `field`, as its field
// `inner`; inner 0: the field is the list.
struct ListPlace {
  uint32_t field;
  uint32_t inner;
  bool fixed;  // 4 bytes each; else varints, 8 bytes each in memory
};
constexpr ListPlace kQuantizeLists[] = {
    {v1::QuantizeRequest::kGivenAmaxFieldNumber,
     v1::GivenAmax::kRowwiseValuesFieldNumber, true},
    {v1::QuantizeRequest::kGivenAmaxFieldNumber,
     v1::GivenAmax::kColumnwiseValuesFieldNumber, true},
    {v1::QuantizeRequest::kScaleFieldNumber, 0, true},
    {v1::QuantizeRequest::kHistoryFieldNumber, v1::History::kAmaxFieldNumber,
     true},
    {v1::QuantizeRequest::kSplitsFieldNumber, v1::Splits::kRowsFieldNumber,
     false},
};
constexpr ListPlace kDequantizeLists[] = {
    {v1::DequantizeRequest::kTensorsFieldNumber,
     v1::TensorRef::kGroupOffsetsFieldNumber, false},
    {v1::DequantizeRequest::kSplitsFieldNumber, v1::Splits::kRowsFieldNumber,
     false},
};
constexpr ListPlace kRhtAmaxLists[] = {
    {v1::RhtAmaxRequest::kSplitsFieldNumber, v1::Splits::kRowsFieldNumber,
     false},
};

absl::Span<const ListPlace> ListsOf(Method method) {
  switch (method) {
    case Method::kQuantize:
      return kQuantizeLists;
    case Method::kDequantize:
      return kDequantizeLists;
    case Method::kRhtAmax:
      return kRhtAmaxLists;
    case Method::kApplyRht:
      break;
  }
  return {};
}

// Counts the lists of a request, field by field.
class ListCounter {
 public:
  explicit ListCounter(absl::Span<const ListPlace> places) : places_(places) {}

  size_t wire() const { return wire_; }
  size_t memory() const { return memory_; }

  // The field of `tag`, of which `in` is behind the tag. What is not as it
  // should be is no list; protobuf will say so.
  void Add(uint32_t tag, Cursor in) {
    if ((tag & 7) != 2 || !Known(tag >> 3)) return;
    const std::optional<size_t> length = in.Length();
    if (!length) return;
    if (const ListPlace* place = Find(tag >> 3, 0)) {
      return Count(*place, *length, in);
    }
    const size_t end = in.position() + *length;
    size_t others = 0;
    while (in.position() < end && memory_ <= kMaxListBytes &&
           others <= kMaxHeadBytes) {
      const size_t start = in.position();
      const uint32_t inner = in.Tag();
      const ListPlace* place =
          (inner & 7) == 2 ? Find(tag >> 3, inner >> 3) : nullptr;
      if (place == nullptr) {
        if (inner == 0 || SkipField(inner, kMaxHeadBytes, in) != Skipped::kOk) {
          return;
        }
        others += in.position() - start;
        continue;
      }
      const std::optional<size_t> size = in.Length();
      if (!size || *size > end - std::min(end, in.position())) return;
      Count(*place, *size, in);
      in.Skip(*size);
      others += in.position() - start - *size;
    }
  }

 private:
  bool Known(uint32_t field) const {
    return std::any_of(places_.begin(), places_.end(),
                       [&](const ListPlace& p) { return p.field == field; });
  }
  const ListPlace* Find(uint32_t field, uint32_t inner) const {
    for (const ListPlace& p : places_) {
      if (p.field == field && p.inner == inner) return &p;
    }
    return nullptr;
  }

  void Count(const ListPlace& place, size_t size, Cursor in) {
    wire_ += size;
    if (place.fixed) {
      memory_ += size;
      return;
    }
    // Ten bytes a number at most: no need to look at what is too much anyway.
    if (size / 10 * 8 > kMaxListBytes) {
      memory_ += size / 10 * 8;
      return;
    }
    in.Walk(size, [&](std::string_view piece) {
      memory_ += 8 * std::count_if(piece.begin(), piece.end(), [](char c) {
                   return static_cast<unsigned char>(c) < 0x80;
                 });
    });
  }

  const absl::Span<const ListPlace> places_;
  size_t wire_ = 0;
  size_t memory_ = 0;
};

}  // namespace

absl::Status Malformed(std::string_view why) {
  absl::Status status = absl::InvalidArgumentError(
      fmt::format("not a message of this type: {}", why));
  status.SetPayload(kMalformedUrl, absl::Cord());
  return status;
}

bool IsMalformed(const absl::Status& status) {
  return status.GetPayload(kMalformedUrl).has_value();
}

namespace {

absl::StatusOr<Split> SplitMessage(Slices message, size_t max_head,
                                   absl::Span<const ListPlace> places) {
  Split split;
  Cursor in(message);
  ListCounter lists(places);
  // Fields that are no payload, not yet copied: from `run` to where we are.
  Cursor run = in;
  const auto flush = [&](size_t end) {
    run.Walk(end - run.position(),
             [&](std::string_view piece) { split.head.append(piece); });
  };
  while (in.remaining() > 0) {
    const size_t start = in.position();
    const uint32_t tag = in.Tag();
    if (tag == kPayloadTag) {
      const std::optional<size_t> length = in.Length();
      if (!length) {
        return Malformed(fmt::format("bad payload length at byte {}", start));
      }
      flush(start);
      split.payload = {in.position(), *length};
      in.Skip(*length);
      run = in;
      continue;
    }
    const Cursor field = in;
    const Skipped skipped =
        tag == 0 ? Skipped::kMalformed : SkipField(tag, max_head, in);
    if (skipped == Skipped::kMalformed) {
      return Malformed(fmt::format("bad field at byte {}", start));
    }
    lists.Add(tag, field);
    const size_t head_bytes =
        split.head.size() + (in.position() - run.position());
    if (skipped == Skipped::kTooLong || head_bytes - lists.wire() > max_head) {
      return HeadTooLarge(max_head);
    }
    if (lists.memory() > kMaxListBytes) {
      return TooLargeError(
          "message",
          fmt::format("lists that take at most {} bytes", kMaxListBytes),
          "more", kMaxListBytes);
    }
  }
  flush(in.position());
  split.list_bytes = lists.wire();
  return split;
}

}  // namespace

absl::StatusOr<Split> SplitPayload(Slices message, size_t max_head) {
  return SplitMessage(message, max_head, {});
}

absl::StatusOr<Split> SplitRequest(Method method, Slices message) {
  return SplitMessage(message, kMaxHeadBytes, ListsOf(method));
}

absl::Status HeadTooLarge(size_t limit) {
  return TooLargeError(
      "message", fmt::format("at most {} bytes beside the payload", limit),
      "more", limit);
}

void Gather(const Request& request, Slices message,
            absl::Span<std::byte> staging) {
  const std::vector<TensorSpec>& inputs = request.plan->inputs();
  Cursor in(message);
  size_t written = 0;  // of the staging
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Request::Source& source = request.sources[i];
    if (inputs[i].offset > written) {
      std::memset(staging.data() + written, 0, inputs[i].offset - written);
    }
    std::byte* to = staging.data() + inputs[i].offset;
    written = inputs[i].offset + inputs[i].size;
    if (!source.literal.empty()) {
      std::memcpy(to, source.literal.data(), source.literal.size());
      continue;
    }
    // Sources may lie in any order; back to the start only when it must be.
    if (source.range.offset < in.position()) in = Cursor(message);
    in.Skip(source.range.offset - in.position());
    in.Walk(source.range.size, [&](std::string_view piece) {
      std::memcpy(to, piece.data(), piece.size());
      to += piece.size();
    });
  }
  if (staging.size() > written) {
    std::memset(staging.data() + written, 0, staging.size() - written);
  }
}

}  // namespace quantd::wire
