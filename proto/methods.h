// The table of the RPCs of quantd.v1.Quantd, and the metadata keys of a call.
// Code that handles every method reads this table: receiving, metrics, the log,
// memory admission, and the paths that a client calls. The messages of a tensor
// method are in proto/messages.h.
#ifndef QUANTD_PROTO_METHODS_H_
#define QUANTD_PROTO_METHODS_H_

#include <cstddef>
#include <iterator>
#include <span>
#include <string_view>

#include "proto/limits.h"

namespace quantd::wire {

// Methods, in the order of the table's rows.
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
  // A static string that ends with '\0': gRPC keeps the pointer.
  const char* path;
  // A tensor method has a payload, a plan and a job on a device.
  bool tensor;
  // For tensor methods: the most output for one byte of a request, in
  // sixteenths of a byte. Extreme shapes may exceed it.
  size_t output_sixteenths;
  // The largest request in bytes, for methods without a tensor. Requests of
  // tensor methods are limited by the server's memory.
  size_t max_request = 0;
};

inline constexpr MethodSpec kMethods[] = {
    // 16-bit elements to two copies of 8-bit codes: 2 x (1/2 codes + 1/64
    // scales). Partial sums of dbias: 4 bytes for 128 elements.
    {Method::kQuantize, "/quantd.v1.Quantd/Quantize", true, 17},
    // Half a byte, plus a scale that many elements share, becomes 4 bytes.
    {Method::kDequantize, "/quantd.v1.Quantd/Dequantize", true, 128},
    {Method::kRhtAmax, "/quantd.v1.Quantd/RhtAmax", true, 0},
    // 16-bit elements become fp32.
    {Method::kApplyRht, "/quantd.v1.Quantd/ApplyRht", true, 32},
    // A stream counts as a call of the method that it carries. The limit
    // applies to its first message.
    {Method::kStream, "/quantd.v1.Quantd/Stream", false, 0,
     kMaxRequestHeadBytes},
    {Method::kDescribeQuantize, "/quantd.v1.Quantd/DescribeQuantize", false, 0,
     kMaxRequestHeadBytes},
    {Method::kGetServerInfo, "/quantd.v1.Quantd/GetServerInfo", false, 0,
     4 << 10},
};

// The rows of the tensor methods, which come first.
inline constexpr std::span<const MethodSpec> kTensorMethods = [] {
  size_t count = 0;
  while (count < std::size(kMethods) && kMethods[count].tensor) ++count;
  return std::span(kMethods).first(count);
}();

// The rows of methods with payloads: the tensor methods and Stream.
inline constexpr std::span<const MethodSpec> kPayloadMethods =
    std::span(kMethods).first(kTensorMethods.size() + 1);
static_assert(kPayloadMethods.back().method == Method::kStream);

// The rows of methods without payloads, which proto/answers.h answers.
inline constexpr std::span<const MethodSpec> kAnswerMethods =
    std::span(kMethods).subspan(kPayloadMethods.size());

// The index of a method's row, for tables with an entry for each method.
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

// The name of a method, such as "Quantize".
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

// Metadata key of the request's size in bytes, which a client may declare.
inline constexpr char kRequestBytesKey[] = "quantd-request-bytes";
// Metadata key of the priority among waiting calls: "high", "normal" or "low".
inline constexpr char kPriorityKey[] = "quantd-priority";
// Metadata keys of the server: the call's id in its log, and when to try again.
inline constexpr char kRequestIdKey[] = "quantd-request-id";
inline constexpr char kPushbackKey[] = "grpc-retry-pushback-ms";

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_METHODS_H_
