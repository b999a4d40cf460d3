// NVFP4 with a scale for each square of 16 x 16, by tiles. Both copies have the
// same codes in a square, so the codes are computed once, row by row, and
// transposed.
//
// A Coding computes the codes of lines of squares, one block of each lane at a
// time. It has a type kType of elements and a Table that is made for an amax.
// It is constructed from the arguments and a table.
//
//   Settle(max, &rare)            returns what Encode needs to know of a square
//                                 with largest magnitude `max`, and whether
//                                 the square is rare
//   Encode(x, block, known, max)  encodes x, the block at address `block`, with
//                                 the result of Settle; all lanes call it
//   EncodeRare(p, x, amax, of)    uses the generic functions; all lanes of a
//                                 square call it
#ifndef QUANTD_KERNELS_CUDA_ENCODE_NVFP4_SQUARES_SQUARES_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_NVFP4_SQUARES_SQUARES_CUH_

#include "kernels/cuda/encode/nvfp4/tile_units.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {

template <typename Coding>
struct SquaresTeam {
  LineCodes::Storage rows[Team::kWarps];
  LineCodes::Storage columns[Team::kWarps];
  typename TeamGroup<typename Coding::Table, true>::Tables tables;
  // Scales of the columnwise copy, by column of squares.
  alignas(4) uint8_t scales[kSquares][kSquares];
};
template <SharedMemory kSize, typename Coding>
using SquaresShared = TileShared<EncodeStream<kSize>, SquaresTeam<Coding>>;

// Transposes a matrix of 16 x 16 nibbles; each of sixteen lanes has a row of
// it.
__device__ __forceinline__ uint2 TransposeNibbles(uint2 v) {
  const uint32_t lane = threadIdx.x;
  const auto exchanged = [](uint32_t word, int with) {
    return __shfl_xor_sync(0xFFFFFFFFu, word, with);
  };
  // Rows 8 apart exchange parts that are 8 columns apart, and so on.
  {
    const bool high = (lane & 8) != 0;
    const uint32_t other = exchanged(high ? v.x : v.y, 8);
    v = high ? make_uint2(other, v.y) : make_uint2(v.x, other);
  }
  {
    const bool high = (lane & 4) != 0;
    const uint32_t other =
        exchanged(__byte_perm(v.x, v.y, high ? 0x5410 : 0x7632), 4);
    v.x = __byte_perm(v.x, other, high ? 0x3254 : 0x5410);
    v.y = __byte_perm(v.y, other, high ? 0x3276 : 0x7610);
  }
  {
    const bool high = (lane & 2) != 0;
    const uint32_t other =
        exchanged(__byte_perm(v.x, v.y, high ? 0x6420 : 0x7531), 2);
    v.x = __byte_perm(v.x, other, high ? 0x3514 : 0x5240);
    v.y = __byte_perm(v.y, other, high ? 0x3716 : 0x7260);
  }
  const uint32_t down = (lane & 1) != 0 ? 0 : 4;
  const uint32_t up = 4 - down;
  const uint32_t kept = 0x0F0F0F0Fu << up;
  const uint32_t other =
      exchanged((v.x >> down & 0x0F0F0F0Fu) | (v.y << up & 0xF0F0F0F0u), 1);
  v.x = (v.x & kept) | (other << down & ~kept);
  v.y = (v.y & kept) | (other >> up & ~kept);
  return v;
}

// Finds the maxima of four words over sixteen lanes. Lane l gets the maximum of
// word l / 4 % 4, as fp32 bits.
template <DType D>
__device__ __forceinline__ uint32_t LargestOfFour(const uint32_t (&m)[4]) {
  const uint32_t lane = threadIdx.x;
  const auto with = [](uint32_t mine, uint32_t theirs, int lanes) {
    return MaxOfWords<D>(mine, __shfl_xor_sync(0xFFFFFFFFu, theirs, lanes));
  };
  const bool second = (lane & 8) != 0;
  const uint32_t a = with(second ? m[2] : m[0], second ? m[0] : m[2], 8);
  const uint32_t b = with(second ? m[3] : m[1], second ? m[1] : m[3], 8);
  const bool odd = (lane & 4) != 0;
  uint32_t max = with(odd ? b : a, odd ? a : b, 4);
  max = with(max, max, 2);
  max = with(max, max, 1);
  return LargerHalf<D>(max & 0x7FFF7FFFu);
}

// The largest magnitude of a square as fp32 bits: `max` with NaN above Inf,
// `clean` without NaN. Lane l has the maxima of square 4 (l / 16) + l / 4 % 4
// of its warp.
struct SquareMaxima {
  uint32_t max;
  uint32_t clean;
};

// Returns the largest magnitude of this lane's square. Ignores NaN.
template <DType D>
__device__ __noinline__ uint32_t LargestClean(WarpLines<false> lines) {
  uint32_t mine = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    lines.number = i;
    const Words x = BlockAt(lines.own_row());
    uint32_t max = 0;
    for (int k = 0; k < kBlock / 2; ++k) {
      const uint32_t low = __float_as_uint(LowOf<D>(x.w[k])) & kAbsMask;
      const uint32_t high = __float_as_uint(HighOf<D>(x.w[k])) & kAbsMask;
      if (low <= kInfBits && low > max) max = low;
      if (high <= kInfBits && high > max) max = high;
    }
    max = LargestOfSixteen(max);
    if (threadIdx.x / 4 % 4 == i) mine = max;
  }
  return mine;
}

template <DType D>
__device__ __forceinline__ SquareMaxima FindSquares(WarpLines<false> lines,
                                                    uint32_t* seen) {
  uint32_t m[4];
  QUANTD_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    lines.number = i;
    m[i] = LargestOfSigned<D>(BlockAt(lines.own_row()));
  }
  const uint32_t max = LargestOfFour<D>(m);
  uint32_t clean = max;
  if (__any_sync(0xFFFFFFFFu, max >= kInfBits)) {
    clean = LargestClean<D>(lines);
    Report(SeenIn(max, clean), seen);
  }
  return {max, clean};
}

// Encodes a warp's sixteen rows for one copy, or for both copies if these are
// equal. Calls put(i, unit) for the lane's block of square 4 (lane / 16) + i.
template <typename Coding, typename Put>
__device__ __forceinline__ void EncodeSquares(
    const EncodeArgs& a, const typename Coding::Table& table, const float* amax,
    WarpLines<false> lines, const SquareMaxima& maxima, const Put& put) {
  const Coding coding(a, table);
  bool is_rare;
  const uint32_t mine = coding.Settle(maxima.max, &is_rare);
  const uint32_t rare = __ballot_sync(0xFFFFFFFFu, is_rare);
#pragma unroll 1
  for (uint32_t i = 0; i < 4; ++i) {
    lines.number = i;
    const uint32_t block = lines.own_row();
    const int from = static_cast<int>((threadIdx.x & 16) + 4 * i);
    const uint32_t known = __shfl_sync(0xFFFFFFFFu, mine, from);
    const auto max_of = [&](uint32_t max) {
      return __shfl_sync(0xFFFFFFFFu, max, from);
    };
    Unit unit = coding.Encode(BlockAt(block), block, known,
                              [&] { return max_of(maxima.max); });
    if (rare != 0) {
      const SquareMaxima of = {max_of(maxima.max), max_of(maxima.clean)};
      if ((rare >> from & 1) != 0) {
        unit = Coding::EncodeRare(a.params, BlockAt(block), *amax, of);
      }
    }
    put(i, unit);
  }
}

template <SharedMemory kSize, typename Coding>
__global__ void __launch_bounds__(EncodeStream<kSize>::kCtaThreads, 1)
    EncodeNvfp4Squares(const __grid_constant__ EncodeArgs a,
                       const __grid_constant__
                       typename EncodeStream<kSize>::Source source) {
  using All = SquaresShared<kSize, Coding>;
  constexpr DType D = Coding::kType;
  RunTileStream<kSize, All>(a, source, [&](All& shared, auto& stream) {
    SquaresTeam<Coding>& s = shared.teams[Team::number()];
    const bool alone = a.list.count == 1;
    TeamGroup<typename Coding::Table, true> group(a, &s.tables);
    const bool rows = a.first.rowwise.data != nullptr;
    const bool columns = a.first.columnwise.data != nullptr;
    const uint32_t warp = Team::warp();
    const uint32_t half = threadIdx.x % kWarp / kBlock;
    const LineCodes row_codes(&s.rows[warp]);
    const LineCodes column_codes(&s.columns[warp]);
    // The address of this lane's block in the transposed codes of the first
    // square of its half.
    const uint32_t transposed = Kept(
        LineCodes::Address(&s.columns[half * 4], threadIdx.x % kBlock, warp));
    HeldScales held;
    for (unsigned k = 0; stream.Receive(alone); ++k) {
      const Place& at = stream.place();
      group.Enter(at.group);
      const WarpLines<false> lines(stream.tile());
      const uint32_t first = lines.first();
      const SquareMaxima maxima = FindSquares<D>(lines, a.seen);
      uint32_t scales = 0;
      const auto put_row = [&](uint32_t i, const Unit& unit) {
        row_codes.Set(i, unit.codes);
        scales = __funnelshift_r(scales, unit.scale, 8);
      };
      const auto put_column = [&](uint32_t i, const Unit& unit) {
        StoreShared(transposed + i * sizeof(LineCodes::Storage),
                    TransposeNibbles(unit.codes));
        s.scales[half * 4 + i][warp] = static_cast<uint8_t>(unit.scale);
      };
      if (columns) Team::Sync();  // until the last tile's codes are stored
      // The amaxes of both copies may differ if they are given.
      if (s.tables.same) {
        EncodeSquares<Coding>(a, s.tables.row, group.task().rowwise.amax, lines,
                              maxima, [&](uint32_t i, const Unit& unit) {
                                put_row(i, unit);
                                put_column(i, unit);
                              });
      } else {
        if (rows) {
          EncodeSquares<Coding>(a, s.tables.row, group.task().rowwise.amax,
                                lines, maxima, put_row);
        }
        if (columns) {
          EncodeSquares<Coding>(a, s.tables.col, group.task().columnwise.amax,
                                lines, maxima, put_column);
        }
      }
      if (rows) {
        const LineTask& rowwise = s.tables.rowwise;
        const LinePlace place = PlaceOfRows(at, first);
        StoreCodes(rowwise, place, row_codes);
        StoreScalesOfSquares(rowwise, place, scales);
      }
      if (a.dbias) {
        SumColumns<D>(stream.tile(), at, a.list.cols, group.task().partial, k);
      }
      if (columns) {
        Team::Sync();  // until the scales are complete
        const uint32_t of =
            *reinterpret_cast<const uint32_t*>(&s.scales[warp][half * 4]);
        const LineTask& columnwise = s.tables.columnwise;
        const LinePlace place = PlaceOfColumns(columnwise, at, first);
        if (place.lines > 0) {
          StoreCodes(columnwise, place, column_codes);
          StoreOrHoldSquares(columnwise, place, at, of, &held);
        }
      }
      stream.Release();
    }
  });
}

// `Of<D>` is the Coding for elements of type D.
template <template <DType> typename Of>
cudaError_t LaunchSquares(const EncodeArgs& a, const Queue& queue) {
  return ForSharedMemory(queue, [&](auto size) {
    return ForTwoByteType(a, [&](auto type) {
      using Coding = Of<type()>;
      return LaunchTileStream<size(), SquaresShared<size(), Coding>>(
          &EncodeNvfp4Squares<size(), Coding>, a, queue);
    });
  });
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_NVFP4_SQUARES_SQUARES_CUH_
