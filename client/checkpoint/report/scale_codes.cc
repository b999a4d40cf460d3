#include "client/checkpoint/report/scale_codes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "client/checkpoint/weight_values.h"
#include "fmt/format.h"
#include "kernels/arith/copy_address.h"
#include "kernels/plan/geometry.h"

namespace quantd::checkpoint {
namespace {

constexpr int kBias = 127;
constexpr int kFirstNormalE4M3 = 8;

int CodeOf(ScaleKind kind, std::string_view dtype,
           absl::Span<const std::byte> bytes, size_t i) {
  if (kind != ScaleKind::kExponent) return static_cast<uint8_t>(bytes[i]);
  const float value = NumberAt(dtype, bytes, i);
  if (!std::isfinite(value)) return 255;
  return value == 0 ? 0 : std::clamp(std::ilogb(value) + kBias, 0, 255);
}

double Share(uint64_t part, uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

}  // namespace

std::string_view Name(ScaleKind kind) {
  switch (kind) {
    case ScaleKind::kE4M3:
      return "E4M3";
    case ScaleKind::kE8M0:
      return "E8M0";
    case ScaleKind::kExponent:
      break;
  }
  return "exponent";
}

void ScaleCodes::Add(const ScaleCodes& other) {
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
}

uint64_t ScaleCodes::total() const {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

int ScaleCodes::median() const {
  const uint64_t all = total();
  uint64_t seen = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    seen += counts[i];
    if (2 * seen >= all) return static_cast<int>(i);
  }
  return 0;
}

double ScaleCodes::zero_share() const {
  // E8M0 has no zero: its smallest code is a power of two.
  return kind == ScaleKind::kE8M0 ? 0 : Share(counts[0], total());
}

double ScaleCodes::subnormal_share() const {
  if (kind != ScaleKind::kE4M3) return 0;
  return Share(std::accumulate(counts.begin() + 1,
                               counts.begin() + kFirstNormalE4M3, uint64_t{0}),
               total());
}

std::string ValueText(ScaleKind kind, int code) {
  if (kind != ScaleKind::kE4M3) return fmt::format("2^{}", code - kBias);
  const std::byte byte{static_cast<uint8_t>(code)};
  return fmt::format("{:.3g}", NumberAt("F8_E4M3", {&byte, 1}, 0));
}

absl::StatusOr<ScaleCodes> CountScales(const Model& model,
                                       const StoredWeight& w) {
  const ModelTensor& part = *w.part(PartSource::kScales);
  const std::string& dtype = part.stored.dtype;
  ScaleCodes out;
  out.kind = dtype == "F8_E4M3"                    ? ScaleKind::kE4M3
             : dtype == "U8" || dtype == "F8_E8M0" ? ScaleKind::kE8M0
                                                   : ScaleKind::kExponent;
  const auto read = model.ReadAll(part);
  if (!read.ok()) return read.status();
  const std::vector<std::byte>& bytes = *read;
  const auto element = static_cast<size_t>(safetensors::BitsOf(dtype) / 8);
  if (!w.layout->swizzled) {
    for (size_t i = 0; i < bytes.size() / element; ++i) {
      ++out.counts[static_cast<size_t>(CodeOf(out.kind, dtype, bytes, i))];
    }
    return out;
  }
  const BlockShape block = BlockOf(*w.layout);
  const int64_t across = CeilDiv(w.cols, block.cols);
  for (int64_t i = 0; i < CeilDiv(w.rows, block.rows); ++i) {
    for (int64_t j = 0; j < across; ++j) {
      const auto at = static_cast<size_t>(SwizzledIndex(i, j, across));
      ++out.counts[static_cast<size_t>(CodeOf(out.kind, dtype, bytes, at))];
    }
  }
  return out;
}

}  // namespace quantd::checkpoint
