// What a call brought back: some tensors and a report.
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

// How a call came to its device and back.
enum class Transport {
  kTcp,
  kUnix,    // a unix socket
  kShared,  // input, or parts in CallOptions::into, in memory shared with the
            // server; by a message only what they are, and what is not there
  kCuda,    // the same, some of it a GPU's memory
  kLocal,   // in this process
};
std::string_view Name(Transport transport);  // "tcp", "unix" and so on

// Uninitialised bytes, 64-byte aligned. Move-only.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  // Stays empty when there is no memory.
  explicit AlignedBytes(size_t size);

  absl::Span<std::byte> span() { return {bytes_.get(), size_}; }
  absl::Span<const std::byte> span() const { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte[], Free> bytes_;
  size_t size_ = 0;
};

// Owns its bytes, but for the parts that went into CallOptions::into: those
// are the caller's and must outlive what is read through here. Move-only; a
// const Result may be read by many threads.
class Result {
 public:
  // The parts, in the order of TensorKind, as quantd/plan.h computes
  // them. The offsets mean nothing here. Of a grouped call every part has
  // group_offsets.
  const std::vector<TensorSpec>& parts() const { return parts_; }

  // The part of that kind, or nullptr.
  const TensorSpec* part(TensorKind kind) const;
  // Its bytes, 64-byte aligned where the Result owns them; empty when there
  // is no such part.
  absl::Span<const std::byte> bytes(TensorKind kind) const;
  // The bytes of one group of a grouped call, which are what the group alone
  // would give; empty when there is no such part or group.
  absl::Span<const std::byte> bytes(TensorKind kind, size_t group) const;
  // A part that is one fp32 number; nullopt when there is no such part or it
  // has several.
  std::optional<float> amax(TensorKind kind) const;
  // A part of fp32 numbers: one, one for each group or one for each line.
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

  // What was found in the input.
  bool saw_nan() const { return saw_nan_; }
  bool saw_inf() const { return saw_inf_; }
  // Groups for whose global scale 1 stands: with its own the profile's library
  // would write NaN.
  int64_t replaced_globals() const { return replaced_globals_; }
  // How far the rowwise or columnwise copy is from what was quantized: where
  // QuantizeOptions::statistics asked for it.
  const std::optional<ErrorStatistics>& statistics(Usage copy) const {
    return copy == Usage::kColumnwise ? columnwise_ : rowwise_;
  }
  // Who did the work: "cuda:0".
  const std::string& device() const { return device_; }
  // The id under which the server logged the call; empty in process.
  const std::string& request_id() const { return request_id_; }
  // Times the call was sent; of one in bands, all calls that its bands were.
  int attempts() const { return attempts_; }
  // Which way it took.
  Transport transport() const { return transport_; }
  // Whether it went there in chunks (ClientOptions::stream_from).
  bool streamed() const { return streamed_; }
  // In how many bands it went (ClientOptions::band_bytes); 1: as one call. The
  // request id is then that of one of them, and device() names all that worked
  // on them: "cpu:0, cuda:1".
  int bands() const { return bands_; }

 private:
  friend class ResultBuilder;
  std::vector<TensorSpec> parts_;
  std::vector<absl::Span<const std::byte>> spans_;
  AlignedBytes owned_;
  std::shared_ptr<const void> kept_;  // of parts in memory of the client's
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
