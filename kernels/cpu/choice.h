// Chooses the functions of kernels/cpu/tiles.h that compute a plan on the CPU,
// for every instruction set. The choice is made once for each plan.
// kernels/KERNELS.md explains its text form.
#ifndef QUANTD_KERNELS_CPU_CHOICE_H_
#define QUANTD_KERNELS_CPU_CHOICE_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "kernels/cpu/tiles.h"
#include "kernels/device/recipe.h"
#include "quantd/plan.h"

namespace quantd::cpu {

// Finds the maxima of the input.
enum class AmaxKernel {
  kNone,
  kTiles,  // maxima of groups, rotated in blocks of 16 or not rotated
  kLines,  // every dimension of rotation, and maxima of lines
};

enum class DecodeKernel {
  kNone,
  kNvfp4Rows,
  kNvfp4Columns,
  kLines,  // every format and rotation
};

enum class RotateKernel {
  kNone,
  kBlocks,  // dimension 16
  kLines,   // larger dimensions
};

// A kernel's name, as in its source, and its field in the table.
template <typename Function>
struct KernelRow {
  std::string_view name;
  Function TileKernels::*function;
};

// Rows are in the order of the enumerators.
inline constexpr KernelRow<decltype(TileKernels::amax)> kAmaxKernels[] = {
    {"-", nullptr},
    {"Amax", &TileKernels::amax},
    {"AmaxLines", &TileKernels::amax_lines}};
inline constexpr KernelRow<decltype(TileKernels::dequantize_row)>
    kDecodeKernels[] = {{"-", nullptr},
                        {"DequantizeRow", &TileKernels::dequantize_row},
                        {"DequantizeCol", &TileKernels::dequantize_col},
                        {"DequantizeLines", &TileKernels::dequantize_lines}};
inline constexpr KernelRow<decltype(TileKernels::rotate)> kRotateKernels[] = {
    {"-", nullptr},
    {"Rotate", &TileKernels::rotate},
    {"RotateLines", &TileKernels::rotate_lines}};

inline const auto& RowOf(AmaxKernel kernel) {
  return kAmaxKernels[static_cast<size_t>(kernel)];
}
inline const auto& RowOf(DecodeKernel kernel) {
  return kDecodeKernels[static_cast<size_t>(kernel)];
}
inline const auto& RowOf(RotateKernel kernel) {
  return kRotateKernels[static_cast<size_t>(kernel)];
}

struct KernelChoice {
  AmaxKernel amax = AmaxKernel::kNone;
  EncodeChoice encode = {};
  DecodeKernel decode = DecodeKernel::kNone;
  RotateKernel rotate = RotateKernel::kNone;
  bool dbias = false;  // SumChunk, then SumChunks

  bool operator==(const KernelChoice&) const = default;
};

KernelChoice ChooseKernels(const Plan& plan, const Recipe& recipe);

// The name of a kernel; "-" for none.
template <typename Kernel>
std::string_view Name(Kernel kernel) {
  return RowOf(kernel).name;
}
// The name of an encoder, which TileKernels::quantize calls.
std::string_view Name(EncodeKernel kernel);

// The chosen kernels, in the order in which they run: "amax Amax, encode rows
// QuantizeFp8Rows, encode columns QuantizeLines".
std::string ToString(const KernelChoice& choice);

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_CHOICE_H_
