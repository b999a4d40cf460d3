// The result of a call: tensors and a report.
#ifndef QUANTD_RESULT_H_
#define QUANTD_RESULT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "quantd/error_statistics.h"
#include "quantd/format.h"
#include "quantd/plan.h"

namespace quantd {

// How the payload of a call was transported.
enum class Transport {
  kTcp,
  kUnix,    // a unix socket
  kShared,  // the input, or parts in CallOptions::into, lie in memory shared
            // with the server; messages carry the rest
  kCuda,    // as kShared, but some of the memory is a GPU's
  kLocal,   // not sent: the device belongs to this process
};
std::string_view Name(Transport transport);  // "tcp", "unix" and so on

// Uninitialised bytes, 64-byte aligned. Move-only.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  // Stays empty if the allocation fails.
  explicit AlignedBytes(size_t size);

  absl::Span<std::byte> span() { return {bytes_.get(), size_}; }
  absl::Span<const std::byte> span() const { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void* block;  // contains the bytes
    void operator()(std::byte*) const;
  };
  std::unique_ptr<std::byte[], Free> bytes_;
  size_t size_ = 0;
};

// Owns its bytes, except for parts in memory of CallOptions::into, which must
// stay valid while they are read through the Result. Move-only. Many threads
// may read a const Result.
class Result {
 public:
  // The parts, in the order of TensorKind, as "quantd/plan.h" computes them.
  // Their offsets have no meaning here. With groups every part has
  // group_offsets.
  const std::vector<TensorSpec>& parts() const { return parts_; }

  // The part of that kind, or nullptr.
  const TensorSpec* part(TensorKind kind) const;
  // The bytes of a part, 64-byte aligned if the Result owns them; empty when
  // there is no such part.
  absl::Span<const std::byte> bytes(TensorKind kind) const;
  // The bytes of one group, which are those of a call on that group alone.
  // Empty if there is no such part or group.
  absl::Span<const std::byte> bytes(TensorKind kind, size_t group) const;
  // The value of a part that is one fp32 number; nullopt if there is no such
  // part or it has several values.
  std::optional<float> amax(TensorKind kind) const;
  // The values of a part of fp32 numbers: one, or one for each group or line.
  // Empty when there is no such part.
  absl::Span<const float> amaxes(TensorKind kind) const;

  // The bytes of that part as elements of T; empty when there is no such part
  // or the sizes do not match.
  template <typename T>
  absl::Span<const T> as(TensorKind kind) const {
    const TensorSpec* spec = part(kind);
    if (spec == nullptr || SizeOf(spec->dtype) != sizeof(T)) return {};
    const auto raw = bytes(kind);
    return {reinterpret_cast<const T*>(raw.data()), raw.size() / sizeof(T)};
  }

  // Whether the input held NaN or Inf.
  bool saw_nan() const { return saw_nan_; }
  bool saw_inf() const { return saw_inf_; }
  // The number of groups whose global scale was replaced by 1, because the
  // profile's library would have written NaN.
  int64_t replaced_globals() const { return replaced_globals_; }
  // The errors of the rowwise or columnwise copy, if
  // QuantizeOptions::statistics asked for them.
  const std::optional<ErrorStatistics>& statistics(Usage copy) const {
    return copy == Usage::kColumnwise ? columnwise_ : rowwise_;
  }
  // The device that ran the call, such as "cuda:0".
  const std::string& device() const { return device_; }
  // The id under which the server logged the call; empty for devices of this
  // process.
  const std::string& request_id() const { return request_id_; }
  // The number of times that the call was sent. For a call in bands it is the
  // sum over the bands.
  int attempts() const { return attempts_; }
  // How the payload was transported.
  Transport transport() const { return transport_; }
  // Whether the input was sent in chunks (ClientOptions::stream_from).
  bool streamed() const { return streamed_; }
  // The number of bands (ClientOptions::band_bytes); 1 if the call was not cut.
  // With several bands, request_id() is that of one band, and device() names
  // all devices: "cpu:0, cuda:1".
  int bands() const { return bands_; }

 private:
  friend class ResultBuilder;
  std::vector<TensorSpec> parts_;
  std::vector<absl::Span<const std::byte>> spans_;
  AlignedBytes owned_;
  std::shared_ptr<const void> kept_;  // owner of parts in the client's memory
  bool saw_nan_ = false;
  bool saw_inf_ = false;
  int64_t replaced_globals_ = 0;
  std::optional<ErrorStatistics> rowwise_;
  std::optional<ErrorStatistics> columnwise_;
  std::string device_;
  std::string request_id_;
  int attempts_ = 0;
  Transport transport_ = Transport::kTcp;
  bool streamed_ = false;
  int bands_ = 1;
};

}  // namespace quantd

#endif  // QUANTD_RESULT_H_
