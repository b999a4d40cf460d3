// Builds messages byte by byte, including ones that no serializer writes, and
// cuts them into slices.
#ifndef QUANTD_TESTS_PROTO_RAW_MESSAGE_H_
#define QUANTD_TESTS_PROTO_RAW_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quantd::wire {

inline constexpr uint32_t kPayloadField = 101;

enum WireType {
  kVarint = 0,
  kFixed64 = 1,
  kDelimited = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

// Encodes a varint. `bytes` > 0 pads it to that many bytes, which is legal up
// to 10.
inline std::string Varint(uint64_t value, int bytes = 0) {
  std::string out;
  for (int i = 1;; ++i) {
    const char low = static_cast<char>(value & 0x7f);
    value >>= 7;
    if (value == 0 && i >= bytes) return out + low;
    out += static_cast<char>(low | 0x80);
  }
}

inline std::string Tag(uint64_t field, int type, int bytes = 0) {
  return Varint(field << 3 | static_cast<uint64_t>(type), bytes);
}

inline std::string Delimited(uint64_t field, std::string_view content) {
  return Tag(field, kDelimited) + Varint(content.size()) + std::string(content);
}

inline std::string Payload(std::string_view content) {
  return Delimited(kPayloadField, content);
}

// Cuts `message` before each offset of `cuts`, which ascend. Equal offsets give
// an empty slice.
inline std::vector<std::string_view> Cut(std::string_view message,
                                         const std::vector<size_t>& cuts) {
  std::vector<std::string_view> slices;
  size_t from = 0;
  for (size_t at : cuts) {
    slices.push_back(message.substr(from, at - from));
    from = at;
  }
  slices.push_back(message.substr(from));
  return slices;
}

}  // namespace quantd::wire

#endif  // QUANTD_TESTS_PROTO_RAW_MESSAGE_H_
