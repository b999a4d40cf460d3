// Computes where a band's tensors lie within the tensors of the whole call.
#ifndef QUANTD_CLIENT_BANDS_BAND_PLACE_H_
#define QUANTD_CLIENT_BANDS_BAND_PLACE_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "client/bands/band_plan.h"
#include "kernels/plan/geometry.h"
#include "quantd/call_options.h"
#include "quantd/plan.h"

namespace quantd::client {

// `count` runs of `bytes` bytes each. The first run starts at offset `at` in
// the whole tensor and at offset 0 in the band's. Further runs follow every
// `whole_pitch` and `band_pitch` bytes.
struct Strip {
  size_t at = 0;
  size_t count = 1;
  size_t bytes = 0;
  size_t whole_pitch = 0;
  size_t band_pitch = 0;
};

// How a band's tensor contributes to the tensor of the whole call.
enum class Part {
  kStrip,   // the band alone writes its strip
  kSame,    // every band returns the bytes of the whole
  kMaxima,  // fp32: each value of the whole is the maximum over the bands
};

// Computes positions in the tensors of a plan that may be cut into bands. The
// plan must outlive this object. Thread-safe.
class BandPlaces {
 public:
  explicit BandPlaces(const Plan& whole);

  // The contribution of a band to this input or output of the plan.
  Part PartOf(const TensorSpec& spec) const;
  // The position of a band's bytes. PartOf must be kStrip.
  Strip StripOf(const TensorSpec& spec, const Band& band) const;
  // Index of the first value of the whole that the band contributes to. PartOf
  // must be kMaxima.
  int64_t FirstOf(const TensorSpec& spec, const Band& band) const;
  // Byte ranges of the whole that no strip covers. The caller zeroes them
  // first.
  std::vector<ZeroRun> GapsOf(const TensorSpec& spec) const;

 private:
  struct Copy {
    FormatSpec format;
    bool columnwise;
    int rotation;
    CopyForm form;
  };
  // The copy (rowwise or columnwise data) that this data or scale tensor is
  // part of.
  Copy CopyOf(TensorKind kind) const;
  CopyGeometry GeometryOf(const Copy& copy, int64_t rows) const;
  Strip CodesOf(const Copy& copy, const Band& band) const;
  Strip ScalesOf(const Copy& copy, const Band& band) const;

  const Plan& plan_;
};

// Copy a band's bytes into the whole tensor, and out of it.
void Scatter(const Strip& strip, absl::Span<const std::byte> band,
             absl::Span<std::byte> whole);
void Gather(const Strip& strip, absl::Span<const std::byte> whole,
            absl::Span<std::byte> band);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_BANDS_BAND_PLACE_H_
