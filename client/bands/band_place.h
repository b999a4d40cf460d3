// Computes where a band's tensors lie within the tensors of the whole call.
#ifndef QUANTD_CLIENT_BANDS_BAND_PLACE_H_
#define QUANTD_CLIENT_BANDS_BAND_PLACE_H_

#include <cstddef>
#include <vector>

#include "client/bands/band_plan.h"
#include "client/tensors/copy_window.h"
#include "kernels/plan/geometry.h"
#include "quantd/plan.h"

namespace quantd::client {

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
  explicit BandPlaces(const Plan& whole) : plan_(whole) {}

  // The contribution of a band to this input or output of the plan.
  Part PartOf(const TensorSpec& spec) const;
  // The position of a band's bytes. PartOf must be kStrip.
  Strip StripOf(const TensorSpec& spec, const Band& band) const;
  // Byte ranges of the whole that no strip covers. The caller zeroes them
  // first.
  std::vector<ZeroRun> GapsOf(const TensorSpec& spec) const;

 private:
  const Plan& plan_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_BANDS_BAND_PLACE_H_
