// Reads a serialized message in place, from its slices, with the rules of
// protobuf's C++ parser. For proto/*.cc only.
#ifndef QUANTD_PROTO_CURSOR_H_
#define QUANTD_PROTO_CURSOR_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "proto/wire.h"

namespace quantd::wire {

// A position in the slices. Cheap to copy: a copy marks a position to return
// to.
class Cursor {
 public:
  explicit Cursor(Slices slices) : slices_(slices) {
    for (std::string_view s : slices) remaining_ += s.size();
    SkipEmpty();
  }

  size_t position() const { return position_; }
  size_t remaining() const { return remaining_; }

  // Takes the next byte. Requires remaining() > 0.
  uint8_t Take() {
    const uint8_t byte = static_cast<uint8_t>(slices_[index_][offset_]);
    ++offset_;
    ++position_;
    --remaining_;
    SkipEmpty();
    return byte;
  }

  // Calls f(piece) for each piece of the next n bytes. Requires n <=
  // remaining().
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

  // Reads a tag of at most five bytes; bits beyond 32 are dropped, as protobuf
  // does. Returns 0 if there is no tag or the tag is illegal.
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

  // Reads a length. nullopt if it exceeds the remaining bytes or protobuf would
  // not accept it.
  std::optional<size_t> Length() {
    constexpr uint64_t kMaxLength = std::numeric_limits<int32_t>::max() - 16;
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
  size_t index_ = 0;   // of the slice
  size_t offset_ = 0;  // of the byte in the slice
  size_t position_ = 0;
  size_t remaining_ = 0;
};

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_CURSOR_H_
