// Compiled once for each instruction set. QUANTD_ARITH is the name of the
// namespace, QUANTD_TILES that of the table, and QUANTD_LANES the number of
// lanes.
//
// Leaf rule: include only arithmetic headers and <cstdint>, and put everything
// into the namespace of the instruction set. If the sources of two instruction
// sets shared a function, such as a standard template, the linker could keep
// the version with wide instructions for the whole program.
#include "kernels/cpu/tiles.h"

#include "kernels/cpu/isa/lines.h"
#include "kernels/cpu/isa/nvfp4.h"
#include "kernels/cpu/isa/transpose.h"

namespace quantd {
inline namespace QUANTD_ARITH {
namespace {

using cpu::AmaxArgs;
using cpu::Maxima;
using cpu::RotateArgs;

using L = Lane;
using F = L::F;
using U = L::U;

// Reduces W lanes to one maximum.
uint32_t Reduce(U u) {
  uint32_t m = 0;
  for (int i = 0; i < W; ++i) m = u[i] > m ? u[i] : m;
  return m;
}

// Updates a running maximum with a block's largest magnitude, NaN dropped.
QUANTD_FN void Add(const F (&v)[16], U max, U* running, bool* nan) {
  if (L::Any(max > kInfBits)) {
    *nan = true;
    max = MaxNumber<L>(v);
  }
  *running = L::Max(max, *running);
}

template <DType D>
QUANTD_FN void StoreSomeBlocks(F (&v)[16], std::byte* p, int64_t count) {
  if (count >= W) {
    StoreBlocks<D, W>(v, p);
    return;
  }
  std::byte buffer[W * 16 * SizeOf(D)];
  StoreBlocks<D, W>(v, buffer);
  __builtin_memcpy(p, buffer, count * 16 * SizeOf(D));
}

template <DType D>
void AmaxRows(const AmaxArgs& a, int64_t first, int64_t last, Maxima* out) {
  constexpr size_t kSize = SizeOf(D);
  // The rows are contiguous, so their blocks are simply a run of elements; with
  // a rotation K is a multiple of 16.
  const std::byte* p = a.x.data + first * a.x.cols * kSize;
  const int64_t elements = (last - first) * a.x.cols;
  const int64_t blocks = elements / 16;
  const Signs signs(a.row_signs);
  U plain{};
  U rotated{};
  bool dropped = false;
  for (int64_t b = 0; b < blocks; b += W) {
    F v[16];
    LoadSomeBlocks<D>(p + b * 16 * kSize, blocks - b, v);
    const U max = MaxMagnitude<L>(v);
    if (L::Any(max >= kInfBits)) Note(v, out);
    Add(v, max, &plain, &dropped);
    if (a.row_signs) {
      Add(v, RotateToBf16<L, kIsHalf<D>>(v, signs.lanes), &rotated,
          &out->row_rht_nan);
    }
  }
  if (elements % 16 != 0) {
    std::byte tail[16 * kSize] = {};
    __builtin_memcpy(tail, p + blocks * 16 * kSize, (elements % 16) * kSize);
    F v[16];
    LoadSomeBlocks<D>(tail, 1, v);
    const U max = MaxMagnitude<L>(v);
    if (L::Any(max >= kInfBits)) Note(v, out);
    Add(v, max, &plain, &dropped);
  }
  const uint32_t p_max = Reduce(plain);
  const uint32_t r_max = Reduce(rotated);
  out->plain = p_max > out->plain ? p_max : out->plain;
  out->row_rht = r_max > out->row_rht ? r_max : out->row_rht;
}

template <DType D>
void AmaxColumns(const AmaxArgs& a, int64_t first, int64_t last, Maxima* out) {
  Band<D> band;
  const Signs signs(a.col_signs);
  U rotated{};
  for (int64_t row = first; row < last; row += 16) {
    for (int64_t col = 0; col < a.x.cols; col += kBandCols) {
      const int64_t cols = Least(kBandCols, a.x.cols - col);
      const std::byte* next =
          a.x.data + (row * a.x.cols + col + kBandCols) * SizeOf(D);
      for (int64_t r = 0; r < 16; ++r) {
        Prefetch<kBandCols * SizeOf(D)>(next + r * a.x.cols * SizeOf(D));
      }
      PackBand<D>(a.x, row, Least(16, last - row), col, cols, &band);
      // Columns beyond the matrix are zeros.
      for (int64_t vector = 0; vector < kBandCols / W; ++vector) {
        F v[16];
        LoadColumns<D>(band, vector, v);
        Add(v, RotateToBf16<L, kIsHalf<D>>(v, signs.lanes), &rotated,
            &out->col_rht_nan);
      }
    }
  }
  const uint32_t max = Reduce(rotated);
  out->col_rht = max > out->col_rht ? max : out->col_rht;
}

// Rounds to the output type and back, because the inverse rotation is applied
// to rounded values.
template <DType D>
QUANTD_FN void RoundTo(F (&v)[16]) {
  if constexpr (D != DType::kF32) {
    for (int i = 0; i < 16; ++i) v[i] = Decode16<L, D>(Encode16<L, D>(v[i]));
  }
}

// A copy of plain NVFP4 and the destination of its values.
struct Source : CopyTask {
  Nvfp4Decode<Scalar> global;
  std::byte* out;  // rows x cols
  int64_t cols;
};

Source SourceOf(const DequantizeParams& params, const GroupTask& group,
                const CopyTask& copy) {
  return {copy, MakeNvfp4Decode<Scalar>(*copy.amax, params.range),
          const_cast<std::byte*>(group.x), params.cols};
}

template <DType D>
QUANTD_FN void Decode(const Nvfp4Block<L>& block, const Source& a,
                      const Signs& signs, F (&v)[16]) {
  DecodeNvfp4<L>(block, a.global, v);
  if (a.signs) {
    RoundTo<D>(v);
    RotateInverse<L>(v, signs.lanes);
  }
}

template <DType D>
void DequantizeRowwise(const Source& a, int64_t first, int64_t last) {
  const Signs signs(a.signs);
  const int64_t blocks = a.cols / 16;
  for (int64_t row = first; row < last; ++row) {
    const std::byte* data = a.data + row * a.data_line;
    const std::byte* scale = a.scale + row * a.scale_line;
    std::byte* out = a.out + row * a.cols * SizeOf(D);
    for (int64_t b = 0; b < blocks; b += W) {
      const int64_t count = Least(W, blocks - b);
      std::byte words[8 * W] = {};
      L::U8 scales{};
      __builtin_memcpy(words, data + 8 * b, 8 * count);
      __builtin_memcpy(&scales, scale + b, count);
      F v[16];
      Nvfp4Block<L> block;
      LoadPairs<W>(words, &block.low, &block.high);
      block.scale = __builtin_convertvector(scales, U);
      Decode<D>(block, a, signs, v);
      StoreSomeBlocks<D>(v, out + b * 16 * SizeOf(D), count);
    }
  }
}

template <DType D>
void DequantizeColumnwise(const Source& a, int64_t first, int64_t last) {
  const Signs signs(a.signs);
  for (int64_t row = first; row < last; row += 16) {
    const int64_t rows = Least(16, last - row);
    for (int64_t col = 0; col < a.cols; col += W) {
      const int64_t lanes = Least(W, a.cols - col);
      std::byte words[8 * W] = {};
      L::U8 scales{};
      for (int64_t i = 0; i < lanes; ++i) {
        const int64_t line = col + i;
        __builtin_memcpy(words + 8 * i, a.data + line * a.data_line + row / 2,
                         8);
        scales[i] =
            static_cast<uint8_t>(a.scale[line * a.scale_line + row / 16]);
      }
      F v[16];
      Nvfp4Block<L> block;
      LoadPairs<W>(words, &block.low, &block.high);
      block.scale = __builtin_convertvector(scales, U);
      Decode<D>(block, a, signs, v);
      for (int64_t r = 0; r < rows; ++r) {
        std::byte* to = a.out + ((row + r) * a.cols + col) * SizeOf(D);
        if (lanes == W) {
          StoreLanes<D, W>(v[r], to);
        } else {
          std::byte buffer[W * SizeOf(D)];
          StoreLanes<D, W>(v[r], buffer);
          __builtin_memcpy(to, buffer, lanes * SizeOf(D));
        }
      }
    }
  }
}

template <DType D, DType Out>
void RotateRows(const RotateArgs& a, int64_t first, int64_t last,
                Maxima* seen) {
  const Signs signs(a.signs);
  const int64_t begin = first * a.x.cols / 16;
  const int64_t end = last * a.x.cols / 16;
  for (int64_t b = begin; b < end; b += W) {
    const int64_t count = Least(W, end - b);
    F v[16];
    LoadSomeBlocks<D>(a.x.data + b * 16 * SizeOf(D), count, v);
    if (L::Any(MaxMagnitude<L>(v) >= kInfBits)) Note(v, seen);
    a.inverse ? RotateInverse<L>(v, signs.lanes)
              : RotateForward<L, kIsHalf<D>>(v, signs.lanes);
    StoreSomeBlocks<Out>(v, a.out + b * 16 * SizeOf(Out), count);
  }
}

void Amax(const AmaxArgs& a, int64_t first, int64_t last, Maxima* out) {
  ForDType(a.x.dtype, [&]<DType D>() {
    AmaxRows<D>(a, first, last, out);
    if (a.col_signs) AmaxColumns<D>(a, first, last, out);
  });
}

void DequantizeRow(const DequantizeParams& params, const GroupTask& group,
                   int64_t first, int64_t last) {
  const Source source = SourceOf(params, group, group.rowwise);
  ForDType(params.output,
           [&]<DType D>() { DequantizeRowwise<D>(source, first, last); });
}

void DequantizeCol(const DequantizeParams& params, const GroupTask& group,
                   int64_t first, int64_t last) {
  const Source source = SourceOf(params, group, group.columnwise);
  ForDType(params.output,
           [&]<DType D>() { DequantizeColumnwise<D>(source, first, last); });
}

void Rotate(const RotateArgs& a, int64_t first, int64_t last, Maxima* seen) {
  ForDType(a.x.dtype, [&]<DType D>() {
    ForDType(a.dtype,
             [&]<DType Out>() { RotateRows<D, Out>(a, first, last, seen); });
  });
}

}  // namespace
}  // namespace QUANTD_ARITH

namespace cpu {
const TileKernels QUANTD_TILES = {.amax = Amax,
                                  .amax_lines = AmaxLines,
                                  .quantize = QuantizeLines,
                                  .dequantize_row = DequantizeRow,
                                  .dequantize_col = DequantizeCol,
                                  .dequantize_lines = DequantizeLines,
                                  .rotate = Rotate,
                                  .rotate_lines = RotateLines,
                                  .sum_chunk = SumChunk,
                                  .sum_chunks = SumChunks};
}  // namespace cpu
}  // namespace quantd
