// The sign vector of a randomized Hadamard transform as a bit mask, and the
// transform's matrix.
//
// R = diag(s) * H * n^-1/2 with H[i][j] = (-1)^popcount(i & j). Bit i of the
// mask is set iff s[i] = -1. Forward: y = x R for a row x of n elements;
// inverse: x = y R^T.
#ifndef QUANTD_SIGN_MASK_H_
#define QUANTD_SIGN_MASK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "quantd/format.h"

namespace quantd {

inline constexpr int kRhtDimensions[] = {16, 32, 64, 128};

// A mask for dimensions up to 128. Bits at and above the dimension are 0.
struct SignMask {
  std::array<uint64_t, 2> words = {0, 0};

  bool operator==(const SignMask&) const = default;
  bool negative(int i) const { return words[i / 64] >> (i % 64) & 1; }
};

// Checks a dimension and a mask. FieldError for a dimension other than 16, 32,
// 64 and 128, or a mask with bits beyond the dimension.
absl::Status CheckRht(int dimension, const std::optional<SignMask>& mask);

// The default vector of TransformerEngine and torchao, 0xD7E8.
inline constexpr SignMask kDefaultSignMask = {{0xD7E8, 0}};

// The default vector for a dimension: kDefaultSignMask, repeated.
SignMask DefaultSignMask(int dimension);

// A random vector, which depends only on the arguments.
SignMask RandomSignMask(uint64_t seed, int dimension);

// Makes a mask whose bit i is set iff v[i] is -1. INVALID_ARGUMENT for a size
// other than 16, 32, 64 or 128, or an entry that is neither 1 nor -1.
absl::StatusOr<SignMask> SignMaskFromVector(absl::Span<const int> v);

// The sign vector: `dimension` entries, each 1 or -1.
std::vector<int> SignVector(const SignMask& mask, int dimension);

// Convert a mask from and to bytes, little endian, dimension / 8 bytes.
// INVALID_ARGUMENT (field "rht.sign_mask") for another length.
absl::StatusOr<SignMask> SignMaskFromBytes(std::string_view bytes,
                                           int dimension);
std::string SignMaskToBytes(const SignMask& mask, int dimension);

// Makes a mask from an integer, as JAX's custom calls pass it. INVALID_ARGUMENT
// (field "rht.sign_mask") for bits at or above the dimension.
absl::StatusOr<SignMask> SignMaskFromInt(uint64_t bits, int dimension);
// The mask as an integer; nullopt if a bit at or above 64 is set.
std::optional<uint64_t> SignMaskToInt(const SignMask& mask);

// R, row-major, dimension x dimension; every entry +-fl32(dimension^-1/2).
std::vector<float> RhtMatrix(const SignMask& mask, int dimension);
// R as elements of fp32, fp16 or bf16, each rounded to nearest; dimensions 16
// and 64 are exact in all three. INVALID_ARGUMENT for another type or
// dimension, or a mask with bits beyond the dimension.
absl::StatusOr<std::vector<std::byte>> RhtMatrix(const SignMask& mask,
                                                 int dimension, DType dtype);

}  // namespace quantd

#endif  // QUANTD_SIGN_MASK_H_
