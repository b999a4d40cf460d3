#include "client/tensors/piece_join.h"

#include <algorithm>
#include <variant>

#include "client/tensors/copy_window.h"
#include "kernels/plan/shards.h"

namespace quantd::client {

// Bytes that no piece writes are padding, which must be zero.
absl::Status Join::Begin() {
  for (const TensorSpec& spec : plan_.outputs()) {
    const auto bytes = builder_.Claim(spec.kind);
    if (bytes.size() != spec.size) {
      return absl::ResourceExhaustedError("no memory for the result");
    }
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
  }
  return absl::OkStatus();
}

void Join::Add(const Shard& piece, const Result& result) {
  for (const TensorSpec& spec : plan_.outputs()) {
    const auto to = builder_.Claim(spec.kind);
    const bool columnwise = IsColumnwise(spec.kind);
    if (IsCode(spec.kind) || IsScale(spec.kind)) {
      const CopyWindow window(CopyOf(plan_, columnwise), plan_.rows(),
                              plan_.cols(), piece);
      Scatter(IsCode(spec.kind) ? window.Codes() : window.Scales(),
              result.bytes(spec.kind), to);
    } else {  // an amax, or a global scale, which is equal in all pieces
      Raise({reinterpret_cast<float*>(to.data()), to.size() / 4},
            columnwise ? piece.column : piece.row, result.amaxes(spec.kind));
    }
  }
  report_.Add(result);
  report_.device = result.device();
  AddStatistics(result.statistics(Usage::kRowwise), &report_.rowwise);
  AddStatistics(result.statistics(Usage::kColumnwise), &report_.columnwise);
}

}  // namespace quantd::client
