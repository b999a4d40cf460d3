#include "client/tensors/piece_join.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <variant>

#include "client/tensors/copy_window.h"
#include "kernels/plan/shards.h"

namespace quantd::client {
namespace {

bool ByColumns(TensorKind kind) {
  return kind == TensorKind::kColumnwiseAmax ||
         kind == TensorKind::kColumnwiseRhtAmax;
}

void AddStatistics(const std::optional<ErrorStatistics>& more,
                   std::optional<ErrorStatistics>* all) {
  if (!more) return;
  if (!*all) all->emplace();
  (*all)->elements += more->elements;
  (*all)->clipped += more->clipped;
  (*all)->flushed += more->flushed;
  (*all)->max_error = std::max((*all)->max_error, more->max_error);
  (*all)->signal += more->signal;
  (*all)->noise += more->noise;
}

}  // namespace

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
    switch (spec.kind) {
      case TensorKind::kRowwiseData:
      case TensorKind::kColumnwiseData:
      case TensorKind::kRowwiseScale:
      case TensorKind::kColumnwiseScale:
        AddCopy(spec.kind, piece, result.bytes(spec.kind), to);
        break;
      default:  // an amax, or a global scale, which is equal in all pieces
        Raise({reinterpret_cast<float*>(to.data()), to.size() / 4},
              ByColumns(spec.kind) ? piece.column : piece.row,
              result.amaxes(spec.kind));
    }
  }
  report_.saw_nan |= result.saw_nan();
  report_.saw_inf |= result.saw_inf();
  // All pieces have the same global scale, so each reports the same count.
  report_.replaced_globals =
      std::max(report_.replaced_globals, result.replaced_globals());
  report_.device = result.device();
  report_.request_id = result.request_id();
  report_.attempts += result.attempts();
  AddStatistics(result.statistics(Usage::kRowwise), &report_.rowwise);
  AddStatistics(result.statistics(Usage::kColumnwise), &report_.columnwise);
}

void Join::AddCopy(TensorKind kind, const Shard& piece,
                   absl::Span<const std::byte> from, absl::Span<std::byte> to) {
  const bool columnwise = kind == TensorKind::kColumnwiseData ||
                          kind == TensorKind::kColumnwiseScale;
  const bool codes =
      kind == TensorKind::kRowwiseData || kind == TensorKind::kColumnwiseData;
  const CopyWindow window(std::get<QuantizeOptions>(plan_.options()),
                          columnwise, plan_.rows(), plan_.cols(),
                          plan_.tensor().dtype, piece);
  const auto move = [&](size_t whole, size_t part, size_t bytes) {
    std::memcpy(to.data() + whole, from.data() + part, bytes);
  };
  codes ? window.Codes(move) : window.Scales(move);
}

}  // namespace quantd::client
