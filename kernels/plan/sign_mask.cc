#include "quantd/sign_mask.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

#include "fmt/format.h"
#include "kernels/arith/codec.h"
#include "kernels/plan/plan_checks.h"
#include "quantd/field_error.h"

namespace quantd {

absl::Status CheckRht(int dimension, const std::optional<SignMask>& mask) {
  if (std::find(std::begin(kRhtDimensions), std::end(kRhtDimensions),
                dimension) == std::end(kRhtDimensions)) {
    return FieldError("rht.dimension", "16, 32, 64 or 128",
                      fmt::to_string(dimension));
  }
  for (int i = dimension; mask && i < 128; ++i) {
    if (mask->negative(i)) {
      return FieldError("rht.sign_mask", fmt::format("{} bits", dimension),
                        "a bit beyond them");
    }
  }
  return absl::OkStatus();
}

SignMask DefaultSignMask(int dimension) {
  SignMask mask = {};
  for (int i = 0; i < dimension; i += 16) {
    mask.words[i / 64] |= kDefaultSignMask.words[0] << (i % 64);
  }
  return mask;
}

SignMask RandomSignMask(uint64_t seed, int dimension) {
  SignMask mask = {};
  for (int i = 0; i < 2; ++i) {
    // splitmix64, in which every bit of the seed affects every sign.
    seed += 0x9E3779B97F4A7C15u;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    mask.words[i] = z ^ (z >> 31);
  }
  if (dimension < 128) mask.words[1] = 0;
  if (dimension < 64) mask.words[0] &= (uint64_t{1} << dimension) - 1;
  return mask;
}

absl::StatusOr<SignMask> SignMaskFromVector(absl::Span<const int> v) {
  if (v.size() != 16 && v.size() != 32 && v.size() != 64 && v.size() != 128) {
    return FieldError("sign_vector", "16, 32, 64 or 128 entries",
                      fmt::to_string(v.size()));
  }
  SignMask mask = {};
  for (size_t i = 0; i < v.size(); ++i) {
    if (v[i] != 1 && v[i] != -1) {
      return FieldError(fmt::format("sign_vector[{}]", i), "1 or -1",
                        fmt::to_string(v[i]));
    }
    if (v[i] == -1) mask.words[i / 64] |= uint64_t{1} << (i % 64);
  }
  return mask;
}

std::vector<int> SignVector(const SignMask& mask, int dimension) {
  std::vector<int> v(dimension);
  for (int i = 0; i < dimension; ++i) v[i] = mask.negative(i) ? -1 : 1;
  return v;
}

absl::StatusOr<SignMask> SignMaskFromBytes(std::string_view bytes,
                                           int dimension) {
  if (bytes.size() * 8 != static_cast<size_t>(dimension)) {
    return FieldError(
        "rht.sign_mask",
        fmt::format("{} bytes (dimension {})", dimension / 8, dimension),
        fmt::format("{} bytes", bytes.size()));
  }
  SignMask mask = {};
  for (size_t i = 0; i < bytes.size() && i < 16; ++i) {
    mask.words[i / 8] |= uint64_t{static_cast<unsigned char>(bytes[i])}
                         << (8 * (i % 8));
  }
  return mask;
}

std::string SignMaskToBytes(const SignMask& mask, int dimension) {
  std::string bytes(dimension / 8, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(mask.words[i / 8] >> (8 * (i % 8)));
  }
  return bytes;
}

absl::StatusOr<SignMask> SignMaskFromInt(uint64_t bits, int dimension) {
  if (dimension < 64 && bits >> dimension != 0) {
    return FieldError("rht.sign_mask", fmt::format("{} bits", dimension),
                      fmt::format("{:#x}", bits));
  }
  return SignMask{{bits, 0}};
}

std::optional<uint64_t> SignMaskToInt(const SignMask& mask) {
  if (mask.words[1] != 0) return std::nullopt;
  return mask.words[0];
}

std::vector<float> RhtMatrix(const SignMask& mask, int dimension) {
  const float scale =
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(dimension)));
  std::vector<float> r(static_cast<size_t>(dimension) * dimension);
  for (int i = 0; i < dimension; ++i) {
    for (int j = 0; j < dimension; ++j) {
      const bool odd = std::popcount(static_cast<unsigned>(i & j)) & 1;
      r[i * dimension + j] = odd != mask.negative(i) ? -scale : scale;
    }
  }
  return r;
}

absl::StatusOr<std::vector<std::byte>> RhtMatrix(const SignMask& mask,
                                                 int dimension, DType dtype) {
  if (absl::Status s = CheckRht(dimension, mask); !s.ok()) return s;
  if (absl::Status s = CheckFloat("dtype", dtype); !s.ok()) return s;
  const std::vector<float> matrix = RhtMatrix(mask, dimension);
  const size_t size = SizeOf(dtype);
  std::vector<std::byte> bytes(matrix.size() * size);
  for (size_t i = 0; i < matrix.size(); ++i) {
    const uint32_t code = dtype == DType::kBF16  ? EncodeBf16<Scalar>(matrix[i])
                          : dtype == DType::kF16 ? EncodeF16<Scalar>(matrix[i])
                                                 : Scalar::Bits(matrix[i]);
    // Copies the low bytes, because the machine is little endian.
    std::memcpy(&bytes[i * size], &code, size);
  }
  return bytes;
}

}  // namespace quantd
