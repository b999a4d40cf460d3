// Positions of a band's tensors within those of the whole.
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

// `count` runs of `bytes` bytes. The first is at offset `at` of the whole's
// tensor and at 0 of the band's; the others follow at these distances.
struct Strip {
  size_t at = 0;
  size_t count = 1;
  size_t bytes = 0;
  size_t whole_pitch = 0;
  size_t band_pitch = 0;
};

// How a band's tensor contributes to the whole's.
enum class Part {
  kStrip,   // no other band has anything there
  kSame,    // every band has the same bytes as the whole
  kMaxima,  // fp32: each value of the whole is the largest of the bands'
};

// Positions in the tensors of a plan that may be cut. The plan must outlive it.
// Thread-safe.
class BandPlaces {
 public:
  explicit BandPlaces(const Plan& whole);

  // For inputs and outputs of the plan.
  Part PartOf(const TensorSpec& spec) const;
  // For kStrip.
  Strip StripOf(const TensorSpec& spec, const Band& band) const;
  // For kMaxima: index of the first value of the whole that the band
  // contributes to.
  int64_t FirstOf(const TensorSpec& spec, const Band& band) const;
  // Bytes of the whole that no strip covers. They must be zeroed before.
  std::vector<ZeroRun> GapsOf(const TensorSpec& spec) const;

 private:
  struct Copy {
    FormatSpec format;
    bool columnwise;
    int rotation;
    CopyForm form;
  };
  // The copy that codes and scales belong to.
  Copy CopyOf(TensorKind kind) const;
  CopyGeometry GeometryOf(const Copy& copy, int64_t rows) const;
  Strip CodesOf(const Copy& copy, const Band& band) const;
  Strip ScalesOf(const Copy& copy, const Band& band) const;

  const Plan& plan_;
};

// Copy a band's bytes to the whole, and back.
void Scatter(const Strip& strip, absl::Span<const std::byte> band,
             absl::Span<std::byte> whole);
void Gather(const Strip& strip, absl::Span<const std::byte> whole,
            absl::Span<std::byte> band);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_BANDS_BAND_PLACE_H_
