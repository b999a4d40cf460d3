#include "client/checkpoint/repair/mended_weight.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "client/checkpoint/plan.h"
#include "client/checkpoint/weight_values.h"
#include "kernels/arith/copy_address.h"
#include "kernels/plan/geometry.h"

namespace quantd::checkpoint {
namespace {

// number of non-negative E4M3 codes that are not NaN
constexpr int kCodesE4M3 = 0x7F;

// The nearest E4M3 code of a non-negative number, ties to even, at most 448.
uint8_t NearestE4M3(double x) {
  const auto table = absl::MakeSpan(ValuesOfE4M3()).first(kCodesE4M3);
  const auto above = std::ranges::lower_bound(table, x);
  if (above == table.begin()) return 0;
  if (above == table.end()) return kCodesE4M3 - 1;
  const auto code = static_cast<uint8_t>(above - table.begin());
  const double up = *above - x;
  const double down = x - *(above - 1);
  if (up == down) return code % 2 == 0 ? code : code - 1;
  return up < down ? code : code - 1;
}

// The index of the scale of block (i, j) in that order.
size_t IndexOf(ScaleOrder order, int64_t i, int64_t j, int64_t across) {
  switch (order) {
    case ScaleOrder::kLinear:
      break;
    case ScaleOrder::kPadded:
      return static_cast<size_t>(i * RoundUp(across, 4) + j);
    case ScaleOrder::kSwizzled:
      return static_cast<size_t>(SwizzledIndex(i, j, across));
  }
  return static_cast<size_t>(i * across + j);
}

ScaleOrder OrderIn(const WeightLayout& layout) {
  return layout.swizzled ? ScaleOrder::kSwizzled : ScaleOrder::kLinear;
}

// The type of the mended part. Scales that the layout stores as fp32 keep their
// present type.
std::string TypeOf(const StoredPart& part, const ModelTensor& t) {
  return std::string(part.dtype == "F32" && part.source == PartSource::kScales
                         ? std::string_view(t.stored.dtype)
                         : part.dtype);
}

struct Blocks {
  int64_t down = 0;
  int64_t across = 0;
};
Blocks BlocksOf(const StoredWeight& w) {
  const BlockShape block = BlockOf(*w.layout);
  return {block.rows == 0 ? 1 : CeilDiv(w.rows, block.rows),
          block.cols == 0 ? 1 : CeilDiv(w.cols, block.cols)};
}

// Rearranges scales from their present order to that of the layout.
std::vector<std::byte> Reordered(const MendedWeight& m,
                                 std::vector<std::byte> scales, size_t size) {
  const ScaleOrder to = OrderIn(*m.weight.layout);
  if (m.order == to) return scales;
  const Blocks blocks = BlocksOf(m.weight);
  std::vector<std::byte> out(size);
  for (int64_t i = 0; i < blocks.down; ++i) {
    for (int64_t j = 0; j < blocks.across; ++j) {
      out[IndexOf(to, i, j, blocks.across)] =
          scales[IndexOf(m.order, i, j, blocks.across)];
    }
  }
  return out;
}

// The sum of squares of the E2M1 values of a block.
double EnergyOf(absl::Span<const std::byte> codes) {
  constexpr int kTwice[8] = {0, 1, 2, 3, 4, 6, 8, 12};
  int sum = 0;
  for (const std::byte b : codes) {
    const auto pair = static_cast<uint8_t>(b);
    const int low = kTwice[pair & 7];
    const int high = kTwice[pair >> 4 & 7];
    sum += low * low + high * high;
  }
  return sum / 4.0;
}

// Fits block scales, in the order of the layout, to the new global scale.
void Fit(const MendedWeight& m, absl::Span<const std::byte> codes,
         std::vector<std::byte>* scales, FittingLoss* loss) {
  const bool divisor = m.weight.layout->global == Global::kDivisor;
  const auto value = [&](double scale, float global) {
    return divisor ? scale / global : scale * global;
  };
  // The factor that keeps the product of block scale and global scale.
  const double factor = divisor
                            ? static_cast<double>(*m.new_global) / *m.global
                            : static_cast<double>(*m.global) / *m.new_global;
  const Blocks blocks = BlocksOf(m.weight);
  const size_t width = static_cast<size_t>(BlockOf(*m.weight.layout).cols) / 2;
  const auto& table = ValuesOfE4M3();
  for (int64_t i = 0; i < blocks.down; ++i) {
    for (int64_t j = 0; j < blocks.across; ++j) {
      std::byte& place =
          (*scales)[IndexOf(OrderIn(*m.weight.layout), i, j, blocks.across)];
      const auto code = static_cast<uint8_t>(place) & 0x7F;
      if (code >= kCodesE4M3) continue;
      const float before = table[static_cast<size_t>(code)];
      const uint8_t fitted = NearestE4M3(before * factor);
      const float after = table[fitted];
      place = std::byte{fitted};
      const double old = value(before, *m.global);
      const double now = value(after, *m.new_global);
      const double energy = EnergyOf(codes.subspan(
          static_cast<size_t>(i * blocks.across + j) * width, width));
      loss->signal += energy * old * old;
      loss->noise += energy * (old - now) * (old - now);
      ++loss->scales;
      loss->rounded += after != before * factor;
    }
  }
}

// Whether the mended weight has the part with that index.
bool IsThere(const MendedWeight& m, size_t part) {
  return m.weight.parts[part] != nullptr ||
         (m.add_label &&
          m.weight.layout->parts[part].source == PartSource::kLabel);
}

// Replaces fp32 numbers by their reciprocals.
void Invert(std::vector<std::byte>* bytes) {
  for (size_t at = 0; at + sizeof(float) <= bytes->size();
       at += sizeof(float)) {
    float x = 0;
    std::memcpy(&x, bytes->data() + at, sizeof(x));
    x = 1 / x;
    std::memcpy(bytes->data() + at, &x, sizeof(x));
  }
}

std::vector<std::byte> BytesOf(float number) {
  std::vector<std::byte> bytes(sizeof(number));
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

// The bytes of the number 1 in that type.
std::vector<std::byte> OneOf(std::string_view dtype) {
  if (dtype == "F32") return BytesOf(1);
  if (dtype == "BF16") return {std::byte{0x80}, std::byte{0x3F}};
  if (dtype == "F16") return {std::byte{0}, std::byte{0x3C}};
  return {dtype == "F8_E4M3" ? std::byte{0x38} : std::byte{0x7F}};
}

}  // namespace

double FittingLoss::sqnr_db() const {
  return noise == 0 ? std::numeric_limits<double>::infinity()
                    : 10 * std::log10(signal / noise);
}

std::vector<safetensors::Tensor> TensorsOf(const MendedWeight& m) {
  const StoredWeight& w = m.weight;
  std::vector<safetensors::Tensor> out;
  for (size_t i = 0; i < w.parts.size(); ++i) {
    const StoredPart& part = w.layout->parts[i];
    if (!IsThere(m, i)) continue;
    // A stack keeps its shape.
    const auto shape = w.layout->stacked
                           ? w.parts[i]->stored.shape
                           : ShapeOf(*w.layout, part.source, w.rows, w.cols);
    const std::string dtype = w.parts[i] != nullptr ? TypeOf(part, *w.parts[i])
                                                    : std::string(part.dtype);
    const bool also = w.parts[i] != nullptr && !part.also.empty() &&
                      w.parts[i]->name() == w.module + std::string(part.also);
    out.push_back({w.module + std::string(also ? part.also : part.suffix),
                   dtype, shape, 0, SizeOfShape(dtype, shape)});
  }
  return out;
}

absl::StatusOr<std::vector<MendedPart>> Mend(const Model& model,
                                             const MendedWeight& m,
                                             FittingLoss* loss) {
  const StoredWeight& w = m.weight;
  auto codes = model.ReadAll(*w.part(PartSource::kCodes));
  if (!codes.ok()) return codes.status();
  if (m.swap_halves) {
    for (std::byte& b : *codes) b = b >> 4 | b << 4;
  }
  if (m.is_zero) std::ranges::fill(*codes, std::byte{0});
  std::vector<MendedPart> out;
  for (safetensors::Tensor& tensor : TensorsOf(m)) {
    out.push_back({std::move(tensor), {}});
  }
  size_t next = 0;
  for (size_t i = 0; i < w.parts.size(); ++i) {
    if (!IsThere(m, i)) continue;
    MendedPart& part = out[next++];
    switch (w.layout->parts[i].source) {
      case PartSource::kCodes:
        part.bytes = *codes;
        break;
      case PartSource::kScales: {
        auto bytes = model.ReadAll(*w.parts[i]);
        if (!bytes.ok()) return bytes.status();
        const auto one = OneOf(w.parts[i]->stored.dtype);
        for (const size_t place : m.bad_scales) {
          std::copy(
              one.begin(), one.end(),
              bytes->begin() + static_cast<ptrdiff_t>(place * one.size()));
        }
        part.bytes = Reordered(m, *std::move(bytes), part.tensor.size);
        // E4M3's 1, which is ModelOpt's scale for a block of zeros.
        constexpr std::byte kOne{0x38};
        if (m.is_zero) std::ranges::fill(part.bytes, kOne);
        if (m.new_global && !m.is_zero) Fit(m, *codes, &part.bytes, loss);
        break;
      }
      case PartSource::kGlobal:
        part.bytes = BytesOf(m.new_global ? *m.new_global : *m.global);
        break;
      case PartSource::kInputScale:
      case PartSource::kLabel: {
        if (w.parts[i] == nullptr) {
          const auto* label =
              reinterpret_cast<const std::byte*>(kComfyLabel.data());
          part.bytes.assign(label, label + kComfyLabel.size());
          break;
        }
        auto bytes = model.ReadAll(*w.parts[i]);
        if (!bytes.ok()) return bytes.status();
        part.bytes = *std::move(bytes);
        if (m.inverts_input &&
            w.layout->parts[i].source == PartSource::kInputScale) {
          Invert(&part.bytes);
        }
        break;
      }
      case PartSource::kNothing:
        break;
    }
  }
  return out;
}

}  // namespace quantd::checkpoint
