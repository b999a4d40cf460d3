// Separates a message into its payload and a small message of all other fields.
//
// Top-level fields are read in place, with the rules of protobuf's C++ parser,
// which differ from the specification: the high bits of a tag of five bytes are
// dropped, and lengths must be below 2 GiB. protobuf checks the content of
// fields when it parses the head.
#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/cord.h"
#include "fmt/format.h"
#include "proto/cursor.h"
#include "proto/messages.h"
#include "proto/wire.h"
#include "quantd/field_error.h"

namespace quantd::wire {
namespace {

// protobuf's limit of nested groups
constexpr int kMaxDepth = 100;

constexpr uint32_t kLentTag = v1::QuantizeRequest::kMemoryFieldNumber << 3 | 2;

enum class Skipped { kOk, kMalformed, kTooLong };

// Skips the field whose tag is `tag`. Stops within a group that exceeds `limit`
// bytes, because a group does not begin with its length.
Skipped SkipField(uint32_t tag, size_t limit, Cursor& in) {
  std::array<uint32_t, kMaxDepth> open;  // field numbers
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
        if (depth == kMaxDepth) return Skipped::kMalformed;
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

// The path of a list of numbers in a request: the field numbers from the top of
// the message to the list.
struct ListPlace {
  std::array<uint32_t, 4> path;  // 0: the path ends before
  bool fixed;  // 4-byte numbers; else varints, 8 bytes in memory
};
constexpr uint32_t kQuantize = v1::QuantizeRequest::kOptionsFieldNumber;
constexpr ListPlace kQuantizeLists[] = {
    {{kQuantize, v1::QuantizeOptions::kGivenAmaxFieldNumber,
      v1::GivenAmax::kRowwiseValuesFieldNumber},
     true},
    {{kQuantize, v1::QuantizeOptions::kGivenAmaxFieldNumber,
      v1::GivenAmax::kColumnwiseValuesFieldNumber},
     true},
    {{kQuantize, v1::QuantizeOptions::kScaleFieldNumber}, true},
    {{kQuantize, v1::QuantizeOptions::kHistoryFieldNumber,
      v1::History::kAmaxFieldNumber},
     true},
    {{kQuantize, v1::QuantizeOptions::kSplitsFieldNumber,
      v1::Splits::kRowsFieldNumber},
     false},
};
constexpr ListPlace kDequantizeLists[] = {
    {{v1::DequantizeRequest::kTensorsFieldNumber,
      v1::TensorRef::kGroupOffsetsFieldNumber},
     false},
    {{v1::DequantizeRequest::kOptionsFieldNumber,
      v1::DequantizeOptions::kSplitsFieldNumber, v1::Splits::kRowsFieldNumber},
     false},
};
constexpr ListPlace kRhtAmaxLists[] = {
    {{v1::RhtAmaxRequest::kOptionsFieldNumber,
      v1::RhtAmaxOptions::kSplitsFieldNumber, v1::Splits::kRowsFieldNumber},
     false},
};

// The path of such a list if the request is field `field` of a stream's first
// message.
constexpr ListPlace Within(uint32_t field, const ListPlace& place) {
  const auto& path = place.path;
  return {{field, path[0], path[1], path[2]}, place.fixed};
}
constexpr auto kStreamLists = [] {
  std::array<ListPlace, 2 * std::size(kQuantizeLists) +
                            std::size(kDequantizeLists) +
                            std::size(kRhtAmaxLists)>
      all = {};
  size_t n = 0;
  for (const ListPlace& place : kQuantizeLists) {
    all[n++] = Within(v1::StreamRequest::kQuantizeFieldNumber, place);
    all[n++] = Within(v1::StreamRequest::kReduceAmaxFieldNumber, place);
  }
  for (const ListPlace& place : kDequantizeLists) {
    all[n++] = Within(v1::StreamRequest::kDequantizeFieldNumber, place);
  }
  for (const ListPlace& place : kRhtAmaxLists) {
    all[n++] = Within(v1::StreamRequest::kRhtAmaxFieldNumber, place);
  }
  return all;
}();

absl::Span<const ListPlace> ListsOf(Method method) {
  switch (method) {
    case Method::kStream:
      return kStreamLists;
    case Method::kQuantize:
      return kQuantizeLists;
    case Method::kDequantize:
      return kDequantizeLists;
    case Method::kRhtAmax:
      return kRhtAmaxLists;
    default:
      return {};
  }
}

// Counts the lists of a request, field by field.
class ListCounter {
 public:
  explicit ListCounter(absl::Span<const ListPlace> places) : places_(places) {}

  size_t wire() const { return wire_; }
  size_t memory() const { return memory_; }

  // Counts the field of `tag`; `in` is just past the tag. A malformed field is
  // not counted as a list; protobuf refuses it later.
  void Add(uint32_t tag, Cursor in) {
    Enter(tag, {}, 0, in.position() + in.remaining(), in);
  }

 private:
  using Path = decltype(ListPlace::path);

  // Finds a list at or below `path`, which is `depth` fields long.
  const ListPlace* Find(const Path& path, size_t depth) const {
    for (const ListPlace& p : places_) {
      if (std::equal(path.begin(), path.begin() + depth, p.path.begin())) {
        return &p;
      }
    }
    return nullptr;
  }

  // Counts the lists of the field of `tag`, which lies at `depth` under `path`
  // in a message that ends at `end`, and moves `in` past it. False for a field
  // that holds no known list.
  bool Enter(uint32_t tag, Path path, size_t depth, size_t end, Cursor& in) {
    if ((tag & 7) != 2 || depth == path.size()) return false;
    path[depth++] = tag >> 3;
    const ListPlace* place = Find(path, depth);
    if (place == nullptr) return false;
    const Cursor start = in;
    const std::optional<size_t> size = in.Length();
    if (!size || *size > end - std::min(end, in.position())) {
      in = start;
      return false;
    }
    others_ += in.position() - start.position();
    if (depth == path.size() || place->path[depth] == 0) {
      Count(*place, *size, in);
    } else {
      Walk(path, depth, in.position() + *size, in);
    }
    in.Skip(*size);
    return true;
  }

  // Counts the fields up to `end` of the message at `path`. Stops early once
  // they exceed the limits of every request.
  void Walk(const Path& path, size_t depth, size_t end, Cursor in) {
    while (in.position() < end && memory_ <= kMaxListBytes &&
           others_ <= kMaxHeadBytes) {
      const size_t start = in.position();
      const uint32_t tag = in.Tag();
      if (tag == 0) return;
      others_ += in.position() - start;
      if (Enter(tag, path, depth, end, in)) continue;
      const size_t behind = in.position();
      if (SkipField(tag, kMaxHeadBytes, in) != Skipped::kOk) return;
      others_ += in.position() - behind;
    }
  }

  void Count(const ListPlace& place, size_t size, Cursor in) {
    wire_ += size;
    if (place.fixed) {
      memory_ += size;
      return;
    }
    // Even with ten bytes per number the list is too large, so its numbers need
    // not be counted.
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
  size_t others_ = 0;  // bytes walked outside of lists
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

absl::StatusOr<SeparatedMessage> Separate(Slices message, size_t max_head,
                                          absl::Span<const ListPlace> places) {
  SeparatedMessage separated;
  Cursor in(message);
  ListCounter lists(places);
  // The fields from `run` to the current position are part of the head and not
  // copied yet.
  Cursor run = in;
  const auto flush = [&](size_t end) {
    run.Walk(end - run.position(),
             [&](std::string_view piece) { separated.head.append(piece); });
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
      separated.payload = {in.position(), *length};
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
        separated.head.size() + (in.position() - run.position());
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
  separated.list_bytes = lists.wire();
  return separated;
}

}  // namespace

absl::StatusOr<SeparatedMessage> SeparatePayload(Slices message,
                                                 size_t max_head) {
  return Separate(message, max_head, {});
}

bool HasShortHead(Slices message) {
  constexpr size_t kShort = 128;
  // A range takes about 30 bytes on the wire and twice as many in memory.
  constexpr size_t kShortRanges = 1 << 10;
  const auto separated = SeparatePayload(message, kShort + kShortRanges);
  if (!separated.ok()) return false;
  const std::string_view head = separated->head;
  size_t ranges = 0;
  for (Cursor in({&head, 1}); in.remaining() > 0;) {
    const size_t start = in.position();
    const uint32_t tag = in.Tag();
    if (SkipField(tag, head.size(), in) != Skipped::kOk) return false;
    if (tag == kLentTag) ranges += in.position() - start;
  }
  return head.size() - ranges <= kShort && ranges <= kShortRanges;
}

absl::StatusOr<SeparatedMessage> SeparateRequest(Method method,
                                                 Slices message) {
  return Separate(message, kMaxHeadBytes, ListsOf(method));
}

absl::Status HeadTooLarge(size_t limit) {
  return TooLargeError(
      "message", fmt::format("at most {} bytes beside the payload", limit),
      "more", limit);
}

}  // namespace quantd::wire
