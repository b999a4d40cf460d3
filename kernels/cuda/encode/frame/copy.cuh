// Encodes one copy of a warp's sixteen lines of a tile, from staged values to
// memory.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_COPY_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_COPY_CUH_

#include "kernels/cuda/encode/frame/codes/pick.cuh"
#include "kernels/cuda/encode/frame/codes/random.cuh"
#include "kernels/cuda/encode/frame/in_place.cuh"
#include "kernels/cuda/encode/frame/largest.cuh"
#include "kernels/cuda/encode/frame/mx_bytes.cuh"
#include "kernels/cuda/encode/frame/pairs.cuh"
#include "kernels/cuda/encode/frame/team_group.cuh"

namespace quantd::cuda {

template <typename C>
using FrameCopy = FrameCopyOf<C>;

// The state of a warp while it encodes a tile.
template <typename C, int kBytes>
struct Turn {
  const EncodeArgs& a;
  const EncodeParams& p;  // C::Known
  const StagedTileOf<kBytes>& tile;
  const Place& at;
  const FrameGroup<C>& group;
  FrameState<C, kBytes>* team;
  const float* signs;
  const FrameRandom<C::kDraws>& random;
  int buffer;  // of the squares: 0 and 1 alternate from tile to tile
};

// The position of a warp's sixteen lines of a tile in their copy.
struct LinesAt {
  int lines;  // lines in the tile; may be 0 or negative
  int64_t first;
  int64_t position;  // the lines' first position in the tile

  template <typename C, int kBytes>
  __device__ __forceinline__ LinesAt(const Turn<C, kBytes>& t, bool columns) {
    const uint32_t own = Team::warp() * kBlock;
    lines = (columns ? t.at.cols : t.at.rows) - static_cast<int>(own);
    first = int64_t{columns ? t.at.col : t.at.row} + own;
    position = columns ? t.at.row : t.at.col;
  }
  // The position where this lane's half of a line begins.
  __device__ __forceinline__ int64_t own_position() const {
    return position + threadIdx.x % kWarp / kBlock * 64;
  }
};

// Stores the E2M1 codes that `codes` holds. All lanes must call this.
template <typename C>
__device__ __forceinline__ void StoreSet(const FrameCopy<C>& own,
                                         const LinesAt& at,
                                         const LineCodes& codes) {
  const auto block = static_cast<uint32_t>(at.position / kBlock);
  const LinePlace place = {static_cast<uint32_t>(at.first), block, at.lines,
                           own.lines.blocks() - static_cast<int>(block)};
  StoreCodes(own.lines, place, codes);
  __syncwarp();
}

// Encodes lines. `values` loads the values of the lane's half of a line.
// Returns whether any lane has NaN or Inf.
template <typename C, int kBytes, typename Values>
__device__ __forceinline__ bool EncodeLines(const Turn<C, kBytes>& t,
                                            bool columns, const Values& values,
                                            DType type) {
  const EncodeParams& p = t.p;
  const FrameCopy<C>& own = t.group.copy(columns);
  const CopyTask& copy = own.task;
  const uint32_t lane = threadIdx.x % kWarp;
  const LinesAt at(t, columns);
  const int lines = at.lines;
  if (lines <= 0) return false;
  const int64_t first_line = at.first;
  const int64_t line = first_line + lane % kBlock;
  const int64_t position = at.position;
  const int64_t own_position = at.own_position();
  // (Lines beyond the copy use the last line's amax.)
  LineScale<Scalar> of_line = own.line;
  if (HasAmaxOfLines(copy)) {
    const int64_t l = line < copy.lines ? line : copy.lines - 1;
    of_line = C::LineOf(p, copy.amax[l * copy.amax_line], 1.0f);
  }

  // The scale, if all of the lane's values share one: that of the line, or of
  // 128 values.
  BlockScale<Scalar> whole = {};
  OtherFp8 other;
  uint32_t max = kInfBits - 1;
  if constexpr (C::kLength == 0) {
    whole = C::Under(p, of_line, 0);
    if constexpr (C::kOther) other = HowToFp8(p, whole.m);
    if (p.scaling == Scaling::kChannel && position == 0 && lane < kBlock &&
        static_cast<int>(lane) < lines) {
      StoreScale(p, copy, line, 0, C::Stored(p, Scalar::Bits(of_line.scale)));
    }
  } else if constexpr (C::kLength == 128) {
    Largest largest;
    if constexpr (C::kSquare) {
      QUANTD_UNROLL
      for (int w = 0; w < Team::kWarps; ++w) {
        const uint32_t m = t.team->tile_max[t.buffer][w];
        const uint32_t n = t.team->tile_clean[t.buffer][w];
        largest.max = m > largest.max ? m : largest.max;
        largest.clean = n > largest.clean ? n : largest.clean;
      }
    } else {
      largest = LargestOfHalfLine(values, type);
      largest.Reduce(16, 16);
    }
    whole = C::ScaleOf(p, of_line, largest.max, largest.clean);
    max = largest.max;
    if constexpr (C::kOther) {
      other = C::kSquare ? HowToManyFp8(p, whole.m) : HowToFp8(p, whole.m);
    }
    if (lane < kBlock && static_cast<int>(lane) < lines &&
        position < copy.padded) {
      StoreScale(p, copy, line, position / 128, C::Stored(p, whole.stored));
    }
  }
  uint32_t squares = 0;
  if constexpr (C::kSquare && C::kLength == 16) {
    squares = t.team->SquaresOf(columns, t.buffer);
  }

  // (The padding of a rotated line is encoded like the rest.)
  const bool partial =
      (!C::kRht || copy.signs == nullptr) && own_position + 64 > copy.positions;
  const bool whole_lines = lines >= kBlock && position + 128 <= copy.padded &&
                           own.lines.is(LineTask::kAlignedCodes);
  const LineCodes codes(&t.team->codes[Team::warp()]);
  const LineBytes bytes(&t.team->codes[Team::warp()]);
  uint32_t scales = 0;
  uint32_t seen_max = 0;
  // Groups of sixteen in an iteration: two if the code is short enough.
  constexpr int kSpan = C::kPicks ? 1 : 2;
  // Whether loads find the maxima, too, two elements at a time. Some cells do
  // not have enough registers.
  constexpr bool kFindsEarly = !C::kInPlace;
#pragma unroll 1
  for (int s = 0; s < 4; s += kSpan) {
    float v[kSpan][kBlock];
    auto& flat = reinterpret_cast<float(&)[kSpan * kBlock]>(v);
    uint32_t found[kSpan] = {};  // magnitudes of the loaded values
    QUANTD_UNROLL
    for (int j = 0; j < kSpan; ++j) {
      if constexpr (!kFindsEarly) {
        values.Load(s + j, type, v[j]);
      } else {
        found[j] = values.LoadAndFindMax(s + j, type, v[j]);
      }
    }
    const auto largest_of = [&](int j) {
      if constexpr (!kFindsEarly) return LargestMagnitude(v[j], 0, kBlock);
      return found[j];
    };
    BlockScale<Scalar> scale = whole;
    QUANTD_UNROLL
    for (int j = 0; j < kSpan; ++j) {
      const uint32_t i = static_cast<uint32_t>(s + j);
      if constexpr (C::kLength == 16 || C::kLength == 32) {
        constexpr int kSixteens = C::kLength / kBlock;
        if (j % kSixteens == 0) {
          max = largest_of(j);
          if constexpr (kSixteens == 2) {
            const uint32_t second = largest_of(j + 1);
            max = second > max ? second : max;
          }
          Largest largest;
          largest.Add(flat, j * kBlock, C::kLength, max);
          if constexpr (C::kSquare) {
            scale = C::Under(p, of_line, squares & 0xFFu);
            squares >>= 8;
          } else if constexpr (C::kPicks) {
            scale = PickScale<C>(t.a.params, p, of_line, own.errors, v[j],
                                 largest.max, largest.clean);
          } else {
            scale = C::ScaleOf(p, of_line, largest.max, largest.clean);
          }
          scales = scales >> 8 | scale.stored << 24;
        }
        if constexpr (C::kFp8 && C::kOther) other = HowToFp8(p, scale.m);
      } else if constexpr (C::kLength == 0) {
        max = largest_of(j);
      }
      seen_max = max > seen_max ? max : seen_max;
      if constexpr (C::kFp8) {
        Sixteen w;
        if constexpr (C::kOther) {
          w = EncodeOtherFp8(p, t.a.params, v[j], other, max);
        } else {
          w = EncodeFp8(p, v[j], scale.m);
        }
        bytes.Set(static_cast<uint32_t>(j % 2), w);
        if (j % 2 == 1) {
          bytes.Store(p, copy, whole_lines, first_line, position, (s + j) / 2);
        }
      } else {
        Sixteen w;
        if constexpr (C::kDraws) {
          uint32_t random[4];
          LineRandom(t.random, p, columns, t.group.row(), line, own_position)
              .Draw(i, random);
          w = EncodeE2M1Values<C>(p, t.a.params, v[j], scale.m, max, &random);
        } else {
          w = EncodeE2M1Values<C>(p, t.a.params, v[j], scale.m, max, nullptr);
        }
        if (partial) {
          KeepCodes<Scalar>(copy.positions - (own_position + 16 * i), w.words);
        }
        if (C::kOther && p.numerics.high_first) {
          w.words[0] = SwapNibbles<Scalar>(w.words[0]);
          w.words[1] = SwapNibbles<Scalar>(w.words[1]);
        }
        codes.Set(i, make_uint2(w.words[0], w.words[1]));
      }
    }
  }

  if constexpr (!C::kFp8) StoreSet<C>(own, at, codes);
  if constexpr (C::kByteScales) {
    if constexpr (C::kLength == 32) scales >>= 16;
    const uint32_t word = WordOfScales<C::kLength>(scales);
    StoreByteScales<C::kLength>(copy, own.lines, first_line, position, lines,
                                word);
  }
  return __any_sync(0xFFFFFFFFu, seen_max >= kInfBits);
}

// EncodeLines for the rows of an MXFP8 cell.
template <typename C, int kBytes, typename Values>
__device__ __forceinline__ bool EncodeMxRows(const Turn<C, kBytes>& t,
                                             const Values& values, DType type) {
  const FrameCopy<C>& own = t.group.copy(false);
  const LinesAt at(t, false);
  if (at.lines <= 0) return false;
  return EncodeMxBytes<C>(t.p, own.task, own.lines,
                          {at.lines, at.first, at.position}, values, type,
                          LineBytes(&t.team->codes[Team::warp()]));
}

// Whether codes of a copy are computed two at a time.
template <typename C>
__device__ __forceinline__ bool GoesByPairs(const CopyTask& copy) {
  return C::kMx || !HasAmaxOfLines(copy);
}
// EncodeLines for 16-bit elements, two codes at a time.
template <typename C, int kBytes, typename Values>
__device__ __forceinline__ bool EncodeLinesByPairs(const Turn<C, kBytes>& t,
                                                   bool columns,
                                                   const Values& values,
                                                   DType type) {
  const FrameCopy<C>& own = t.group.copy(columns);
  const CopyTask& copy = own.task;
  const LinesAt at(t, columns);
  if (at.lines <= 0) return false;
  const LineCodes codes(&t.team->codes[Team::warp()]);
  // (The padding of a rotated line is encoded like the rest.)
  const int64_t end = C::kRht ? copy.padded : copy.positions;
  bool special;
  const auto encode = [&](const auto& random) {
    return EncodePairs<C>(t.a.params, t.p, own, values, type,
                          end - at.own_position(), codes, random, &special);
  };
  uint32_t scales;
  if constexpr (C::kDraws) {
    scales = encode(LineRandom(t.random, t.p, columns, t.group.row(),
                               at.first + threadIdx.x % kWarp % kBlock,
                               at.own_position()));
  } else {
    scales = encode(ToNearest());
  }
  StoreSet<C>(own, at, codes);
  StoreByteScales<C::kLength>(copy, own.lines, at.first, at.position, at.lines,
                              WordOfScales<C::kLength>(scales));
  return __any_sync(0xFFFFFFFFu, special);
}

// Encodes a copy from the tile, without rotation. Returns Seen bits.
template <typename C, int kBytes, bool kColumns>
__device__ __forceinline__ uint32_t EncodeCopy(const Turn<C, kBytes>& t) {
  if constexpr (kColumns && C::kInPlace) {
    return EncodeColumnsInPlace<C, kBytes>(t.p, t.tile, t.at,
                                           t.group.copy(true).task);
  } else {
    const LaneValues<kBytes, kColumns> values(t.tile,
                                              &t.team->exchange[Team::warp()]);
    bool special;
    if constexpr (C::kMxFp8) {
      special = EncodeMxRows(t, values, t.p.input);
    } else if constexpr (C::kPairs && !C::kRht && kBytes == 2) {
      special = GoesByPairs<C>(t.group.copy(kColumns).task)
                    ? EncodeLinesByPairs(t, kColumns, values, t.p.input)
                    : EncodeLines<C, kBytes>(t, kColumns, values, t.p.input);
    } else {
      special = EncodeLines<C, kBytes>(t, kColumns, values, t.p.input);
    }
    return special ? SeenInHalfLine<kBytes, kColumns>(values, t.p.input) : 0;
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_COPY_CUH_
