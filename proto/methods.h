// The RPCs of quantd.v1.Quantd, one row each, and what a call carries beside
// its messages. Whatever is done for every method follows these rows: arrival,
// metrics and the log, memory, and the paths that a client calls. The messages
// of a tensor method are in proto/messages.h.
#ifndef QUANTD_PROTO_METHODS_H_
#define QUANTD_PROTO_METHODS_H_

#include <cstddef>
#include <iterator>
#include <span>
#include <string_view>

#include "proto/limits.h"

namespace quantd::wire {

// In the order of the rows.
enum class Method {
  kQuantize,
  kDequantize,
  kRhtAmax,
  kApplyRht,
  kStream,
  kDescribeQuantize,
  kGetServerInfo,
};

struct MethodSpec {
  Method method;
  // A string that lives for ever and ends with '\0': gRPC keeps the pointer.
  const char* path;
  // A tensor method has a payload, a plan and a job on a device.
  bool tensor;
  // The bytes of output, in 1/16, that a tensor method makes of one byte of
  // its request at most, where the shape is not extreme.
  size_t output_sixteenths;
  // The largest request of a method that is none, in bytes. Of tensor methods
  // the server's memory decides.
  size_t max_request = 0;
};

inline constexpr MethodSpec kMethods[] = {
    // From 16-bit elements, both directions, 8-bit codes: 2 x (1/2 codes +
    // 1/64 scales). Partial sums of dbias: 4 bytes for 128 elements.
    {Method::kQuantize, "/quantd.v1.Quantd/Quantize", true, 17},
    // Half a byte and a scale for many become a 4-byte element.
    {Method::kDequantize, "/quantd.v1.Quantd/Dequantize", true, 128},
    {Method::kRhtAmax, "/quantd.v1.Quantd/RhtAmax", true, 0},
    // 16-bit elements become fp32.
    {Method::kApplyRht, "/quantd.v1.Quantd/ApplyRht", true, 32},
    // Carries any of those above, as which its calls count. The largest first
    // message.
    {Method::kStream, "/quantd.v1.Quantd/Stream", false, 0,
     kMaxRequestHeadBytes},
    {Method::kDescribeQuantize, "/quantd.v1.Quantd/DescribeQuantize", false, 0,
     kMaxRequestHeadBytes},
    {Method::kGetServerInfo, "/quantd.v1.Quantd/GetServerInfo", false, 0,
     4 << 10},
};

// The rows of the tensor methods, which are the first ones.
inline constexpr std::span<const MethodSpec> kTensorMethods = [] {
  size_t count = 0;
  while (count < std::size(kMethods) && kMethods[count].tensor) ++count;
  return std::span(kMethods).first(count);
}();

// The rows of methods that work with payloads: those, and Stream.
inline constexpr std::span<const MethodSpec> kPayloadMethods =
    std::span(kMethods).first(kTensorMethods.size() + 1);
static_assert(kPayloadMethods.back().method == Method::kStream);

// The place of a method's row, for tables that have an entry for each.
constexpr size_t Index(Method method) { return static_cast<size_t>(method); }

constexpr const MethodSpec& SpecOf(Method method) {
  return kMethods[Index(method)];
}

// The row of the method with that path, or nullptr.
constexpr const MethodSpec* FindMethod(std::string_view path) {
  for (const MethodSpec& spec : kMethods) {
    if (path == spec.path) return &spec;
  }
  return nullptr;
}

// "Quantize".
constexpr std::string_view Name(Method method) {
  std::string_view path = SpecOf(method).path;
  path.remove_prefix(path.rfind('/') + 1);
  return path;
}

static_assert(
    [] {
      for (size_t i = 0; i < std::size(kMethods); ++i) {
        if (Index(kMethods[i].method) != i) return false;
        if (kMethods[i].tensor != (i < kTensorMethods.size())) return false;
      }
      return true;
    }(),
    "the rows are in the order of Method, tensor methods first");

// Keys of metadata. A client may declare its request's size in bytes.
inline constexpr char kRequestBytesKey[] = "quantd-request-bytes";
// Who goes first where calls wait: "high", "normal" or "low".
inline constexpr char kPriorityKey[] = "quantd-priority";
// The server says the call's id in its log, and when to try again.
inline constexpr char kRequestIdKey[] = "quantd-request-id";
inline constexpr char kPushbackKey[] = "grpc-retry-pushback-ms";

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_METHODS_H_
