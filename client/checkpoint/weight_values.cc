#include "client/checkpoint/weight_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "fmt/format.h"
#include "kernels/arith/copy_address.h"
#include "kernels/plan/geometry.h"

namespace quantd::checkpoint {
namespace {

constexpr size_t kBytes = 256;  // number of values of a byte

// Up to this many scales are read at once. More are read with their rows.
constexpr int64_t kMostScales = int64_t{1} << 16;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <typename T>
T Load(absl::Span<const std::byte> bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

// Decodes a byte with a sign, an exponent and `mantissa` bits. Every code is
// finite.
float FromSmall(uint32_t code, int mantissa, int bias) {
  const int exponent = static_cast<int>(code >> mantissa & (0x7F >> mantissa));
  const uint32_t fraction = code & ((1u << mantissa) - 1);
  const float value =
      exponent == 0
          ? std::ldexp(static_cast<float>(fraction), 1 - bias - mantissa)
          : std::ldexp(static_cast<float>(fraction | 1u << mantissa),
                       exponent - bias - mantissa);
  return code & 0x80 ? -value : value;
}

float FromHalf(uint16_t bits) {
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  const int exponent = bits >> 10 & 0x1F;
  const int fraction = bits & 0x3FF;
  if (exponent == 0x1F) {
    return fraction == 0 ? sign * std::numeric_limits<float>::infinity() : kNaN;
  }
  return sign * (exponent == 0
                     ? std::ldexp(static_cast<float>(fraction), -24)
                     : std::ldexp(static_cast<float>(fraction + 0x400),
                                  exponent - 25));
}

constexpr float kE2M1[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                             -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

// The product rounded to odd: truncated to fp32, with the last bit set if it is
// inexact.
float OddProduct(float a, float b) {
  const double exact = double{a} * double{b};
  const auto nearest = static_cast<float>(exact);
  // Branchless, so that the compiler vectorizes it.
  const uint32_t above = std::abs(double{nearest}) > std::abs(exact) ? 1 : 0;
  const uint32_t inexact = double{nearest} != exact ? 1 : 0;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(nearest) - above) |
                              inexact);
}

float Bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// The nearest number of the type, if it is BF16 or F16; otherwise `x`.
float RoundTo(std::string_view dtype, float x) {
  if (dtype == "BF16") return Bf16(ToBf16(x));
  if (dtype != "F16" || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const float step = std::ldexp(1.0f, std::max(exponent - 11, -24));
  const float rounded = std::nearbyint(x / step) * step;
  return std::abs(rounded) < 65536 ? rounded
                                   : std::copysign(HUGE_VALF, rounded);
}

}  // namespace

const std::array<float, 256>& ValuesOfE4M3() {
  static const auto values = [] {
    std::array<float, 256> table;
    for (uint32_t i = 0; i < 256; ++i) {
      table[i] = (i & 0x7F) == 0x7F ? kNaN : FromSmall(i, 3, 7);
    }
    return table;
  }();
  return values;
}

void Decode(std::string_view dtype, absl::Span<const std::byte> bytes,
            absl::Span<float> out) {
  if (dtype == "BF16") {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = Bf16(Load<uint16_t>(bytes, i));
    }
  } else if (dtype == "F32") {
    std::memcpy(out.data(), bytes.data(), bytes.size());
  } else if (safetensors::BitsOf(dtype) == 8 && out.size() > kBytes) {
    std::array<float, kBytes> table;
    for (size_t i = 0; i < kBytes; ++i) {
      const auto code = static_cast<std::byte>(i);
      table[i] = NumberAt(dtype, {&code, 1}, 0);
    }
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = table[static_cast<uint8_t>(bytes[i])];
    }
  } else {
    for (size_t i = 0; i < out.size(); ++i) out[i] = NumberAt(dtype, bytes, i);
  }
}

uint16_t ToBf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

uint64_t Altered(absl::Span<const float> a, std::string_view type_a,
                 absl::Span<const float> b, std::string_view type_b) {
  uint64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    count += a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i])) &&
             RoundTo(type_b, a[i]) != b[i] && RoundTo(type_a, b[i]) != a[i];
  }
  return count;
}

float NumberAt(std::string_view dtype, absl::Span<const std::byte> bytes,
               size_t i) {
  if (dtype == "F32") return Load<float>(bytes, i);
  if (dtype == "BF16") {
    return Bf16(Load<uint16_t>(bytes, i));
  }
  if (dtype == "F16") return FromHalf(Load<uint16_t>(bytes, i));
  if (safetensors::BitsOf(dtype) != 8) return kNaN;
  const auto code = Load<uint8_t>(bytes, i);
  if (dtype == "F8_E4M3") return ValuesOfE4M3()[code];
  if (dtype == "F8_E5M2") {
    return FromHalf(static_cast<uint16_t>(code << 8));
  }
  if (dtype == "F8_E8M0" || dtype == "U8") {
    return code == 0xFF ? kNaN : std::ldexp(1.0f, code - 127);
  }
  return kNaN;
}

absl::StatusOr<std::vector<float>> ReadNumbers(const Model& model,
                                               const ModelTensor& tensor) {
  const auto element =
      static_cast<size_t>(safetensors::BitsOf(tensor.stored.dtype) / 8);
  return ReadNumbers(model, tensor, 0,
                     element == 0 ? 0 : tensor.stored.size / element);
}

absl::StatusOr<std::vector<float>> ReadNumbers(const Model& model,
                                               const ModelTensor& tensor,
                                               size_t first, size_t count) {
  const auto element =
      static_cast<size_t>(safetensors::BitsOf(tensor.stored.dtype) / 8);
  std::vector<std::byte> bytes(count * element);
  if (auto s = model.Read(tensor, first * element, absl::MakeSpan(bytes));
      !s.ok()) {
    return s;
  }
  std::vector<float> numbers(count);
  Decode(tensor.stored.dtype, bytes, absl::MakeSpan(numbers));
  return numbers;
}

WeightValues::WeightValues(const Model& model, const StoredWeight& weight,
                           int64_t expert)
    : model_(model),
      weight_(&weight),
      rows_(weight.rows),
      cols_(weight.cols),
      expert_(expert),
      swapped_(weight.layout->high_half_first),
      swizzled_(weight.layout->swizzled) {}

WeightValues::WeightValues(const Model& model, const ModelTensor& tensor)
    : model_(model), tensor_(&tensor) {
  const auto& shape = tensor.stored.shape;
  cols_ = shape.empty() ? 1 : shape.back();
  rows_ = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows_ *= shape[i];
}

absl::Status WeightValues::ReadScales(int64_t row, int64_t count) {
  const WeightLayout& layout = *weight_->layout;
  float number = 1;
  if (layout.global != Global::kNone) {
    const auto global =
        ReadNumbers(model_, *weight_->part(PartSource::kGlobal));
    if (!global.ok()) return global.status();
    if (global->size() != 1) {
      return absl::InvalidArgumentError(
          fmt::format("{}: expected one global scale", weight_->module));
    }
    number = (*global)[0];
    global_ = layout.global == Global::kDivisor ? 1 / number : number;
  }
  const BlockShape block = BlockOf(layout);
  height_ = block.rows;
  const int64_t down = block.rows == 0 ? 1 : CeilDiv(rows_, block.rows);
  across_ = block.cols == 0 ? 1 : CeilDiv(cols_, block.cols);
  ready_ = swizzled_ || height_ != 1 || down * across_ <= kMostScales;
  first_line_ = ready_ ? 0 : row;
  const int64_t lines = ready_ ? down : count;
  scales_.resize(static_cast<size_t>(lines * across_));
  const ModelTensor& part = *weight_->part(PartSource::kScales);
  // Reads the scales of this expert only.
  const auto first =
      static_cast<size_t>((expert_ * down + first_line_) * across_);
  const auto scales = swizzled_ && weight_->experts == 1
                          ? ReadNumbers(model_, part)
                          : ReadNumbers(model_, part, first, scales_.size());
  if (!scales.ok()) return scales.status();
  for (int64_t i = 0; i < lines; ++i) {
    for (int64_t j = 0; j < across_; ++j) {
      const int64_t at =
          swizzled_ ? SwizzledIndex(i, j, across_) : i * across_ + j;
      const auto from = static_cast<size_t>(at);
      if (from >= scales->size()) {
        return absl::InvalidArgumentError(
            fmt::format("{}: the tensor has too few scales", weight_->module));
      }
      scales_[static_cast<size_t>(i * across_ + j)] =
          layout.global == Global::kDivisor ? (*scales)[from] / number
                                            : (*scales)[from] * number;
    }
  }
  return mends_ ? Mend(first) : absl::OkStatus();
}

absl::Status WeightValues::Mend(size_t first) {
  mended_.clear();
  const BlockShape block = BlockOf(*weight_->layout);
  const ModelTensor& part = *weight_->part(PartSource::kCodes);
  const size_t line = LineBytes();
  const bool half = part.stored.dtype == "U8";
  const size_t width =
      block.cols == 0 ? line : static_cast<size_t>(block.cols) / (half ? 2 : 1);
  const std::byte magnitude{half ? uint8_t{0x77} : uint8_t{0x7F}};
  const auto across = static_cast<size_t>(across_);
  std::vector<std::byte> codes(line);
  std::vector<size_t> bad;  // blocks of the line whose scale is not finite
  for (size_t begin = 0; begin < scales_.size(); begin += across) {
    bad.clear();
    for (size_t j = 0; j < across; ++j) {
      if (!std::isfinite(scales_[begin + j])) bad.push_back(j);
    }
    const int64_t row =
        (first_line_ + static_cast<int64_t>(begin) / across_) * height_;
    const int64_t end = height_ == 0 ? rows_ : std::min(rows_, row + height_);
    for (int64_t i = row; i < end && !bad.empty(); ++i) {
      const auto s =
          model_.Read(part, static_cast<size_t>(expert_ * rows_ + i) * line,
                      absl::MakeSpan(codes));
      if (!s.ok()) return s;
      std::erase_if(bad, [&](size_t j) {
        const size_t stop = std::min(line, (j + 1) * width);
        return std::any_of(
            codes.begin() + static_cast<ptrdiff_t>(j * width),
            codes.begin() + static_cast<ptrdiff_t>(stop),
            [&](std::byte b) { return (b & magnitude) != std::byte{0}; });
      });
    }
    for (const size_t j : bad) {
      scales_[begin + j] = 1;
      const auto column = static_cast<int64_t>(j);
      mended_.push_back(first +
                        (swizzled_ ? static_cast<size_t>(SwizzledIndex(
                                         static_cast<int64_t>(begin) / across_,
                                         column, across_))
                                   : begin + j));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<size_t>> WeightValues::BadScalesOfZeros() {
  constexpr int64_t kRows = 128;
  mends_ = true;
  std::vector<size_t> all;
  for (int64_t row = 0; row < rows_ && !ready_; row += kRows) {
    const auto s = ReadScales(row, std::min(kRows, rows_ - row));
    if (!s.ok()) return s;
    all.insert(all.end(), mended_.begin(), mended_.end());
  }
  return all;
}

size_t WeightValues::LineBytes() const {
  const ModelTensor* codes =
      weight_ ? weight_->part(PartSource::kCodes) : tensor_;
  const std::string& dtype = codes->stored.dtype;
  return static_cast<size_t>(cols_) *
         static_cast<size_t>(safetensors::BitsOf(dtype)) / 8 /
         (weight_ && dtype == "U8" ? 2 : 1);
}

void WeightValues::Scale(int64_t row, int64_t count,
                         std::vector<float>* out) const {
  const BlockShape block = BlockOf(*weight_->layout);
  const int64_t width = block.cols == 0 ? cols_ : block.cols;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t begin = 0; begin < cols_; begin += width) {
      const float factor = scale(row + i, begin / width);
      const int64_t end = std::min(cols_, begin + width);
      if (to_odd_) {
        for (int64_t j = begin; j < end; ++j) {
          float& x = (*out)[static_cast<size_t>(i * cols_ + j)];
          x = OddProduct(x, factor);
        }
        continue;
      }
      for (int64_t j = begin; j < end; ++j) {
        (*out)[static_cast<size_t>(i * cols_ + j)] *= factor;
      }
    }
  }
}

void WeightValues::ExpandCodes(std::vector<uint8_t>* out) const {
  const bool half = weight_->part(PartSource::kCodes)->stored.dtype == "U8";
  out->resize(codes_.size() * (half ? 2 : 1));
  for (size_t i = 0; i < codes_.size(); ++i) {
    const auto code = static_cast<uint8_t>(codes_[i]);
    if (!half) {
      (*out)[i] = code;
      continue;
    }
    (*out)[2 * i + (swapped_ ? 1 : 0)] = code & 0xF;
    (*out)[2 * i + (swapped_ ? 0 : 1)] = code >> 4;
  }
}

absl::Status WeightValues::Read(int64_t row, int64_t count,
                                std::vector<float>* out) {
  const ModelTensor* codes =
      weight_ ? weight_->part(PartSource::kCodes) : tensor_;
  const std::string& dtype = codes->stored.dtype;
  const bool half = weight_ && dtype == "U8";
  const size_t line = LineBytes();
  std::vector<std::byte>& bytes = codes_;
  bytes.resize(static_cast<size_t>(count) * line);
  const auto from = static_cast<size_t>(expert_ * rows_ + row) * line;
  if (auto s = model_.Read(*codes, from, absl::MakeSpan(bytes)); !s.ok()) {
    return s;
  }
  out->resize(static_cast<size_t>(count * cols_));
  if (weight_ && !ready_) {
    if (auto s = ReadScales(row, count); !s.ok()) return s;
  }
  if (half) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      const auto pair = static_cast<uint8_t>(bytes[i]);
      (*out)[2 * i + (swapped_ ? 1 : 0)] = kE2M1[pair & 0xF];
      (*out)[2 * i + (swapped_ ? 0 : 1)] = kE2M1[pair >> 4];
    }
  } else {
    Decode(dtype, bytes, absl::MakeSpan(*out));
  }
  if (weight_) Scale(row, count, out);
  return absl::OkStatus();
}

}  // namespace quantd::checkpoint
