// Rowwise FP8 codes for one scale per tensor, MXFP8 and blocks of 128. The leaf
// rule of tiles.cc applies.
#include "kernels/cpu/isa/fp8.h"

namespace quantd {
inline namespace QUANTD_ARITH {
namespace {

constexpr int W = QUANTD_LANES;
using L = Lane;
using F = L::F;
using U = L::U;

// The number of bytes to prefetch ahead, because the hardware's prefetch cannot
// keep up with rows of a large matrix.
constexpr int64_t kAhead = 4096;

// Quads 0, 2, 4 .. or 1, 3, 5 .. of two vectors.
template <bool Odd>
struct Quads {
  static constexpr int At(int i) { return (i / 4 * 2 + Odd) * 4 + i % 4; }
};

// Lane i of the result is the largest lane of m[i].
QUANTD_FN U MaxOfEach(const U (&m)[W]) {
  constexpr auto low = [](U a, U b) {
    return Shuffle<Unpack<W, 1, false>, W>(a, b);
  };
  constexpr auto high = [](U a, U b) {
    return Shuffle<Unpack<W, 1, true>, W>(a, b);
  };
  U quads[W / 4];
  for (int i = 0; i < W / 4; ++i) {
    const U* q = m + 4 * i;
    const U even = L::Max(low(q[0], q[2]), high(q[0], q[2]));
    const U odd = L::Max(low(q[1], q[3]), high(q[1], q[3]));
    quads[i] = L::Max(low(even, odd), high(even, odd));
  }
  for (int n = W / 8; n > 0; n /= 2) {
    for (int i = 0; i < n; ++i) {
      const U a = quads[2 * i];
      const U b = quads[2 * i + 1];
      quads[i] =
          L::Max(Shuffle<Quads<false>, W>(a, b), Shuffle<Quads<true>, W>(a, b));
    }
  }
  return quads[0];
}

// W consecutive blocks of one or several lines.
struct Group {
  const std::byte* from;
  std::byte* to;
  int64_t line;
  int64_t block;  // the first block, within the line
  int64_t count;  // blocks that exist; fewer than W at the end
};

struct RowJob {
  const EncodeParams& params;
  const CopyTask& copy;
  LineScale<L> scales;
  cpu::Maxima* seen;
};

void StoreScales(const RowJob& job, const Group& g, U stored) {
  const CopyTask& copy = job.copy;
  const bool bytes = job.params.scaling == Scaling::kMx;
  if (bytes && !copy.swizzled && g.count == W && g.block + W <= copy.blocks) {
    const L::U8 low = L::LowBytes(stored);
    __builtin_memcpy(copy.scale + g.line * copy.scale_line + g.block, &low, W);
    return;
  }
  int64_t line = g.line;
  int64_t block = g.block;
  for (int64_t i = 0; i < g.count; ++i, ++block) {
    if (block == copy.blocks) {
      block = 0;
      ++line;
    }
    const uint32_t value = stored[i];
    const int64_t at = ScaleIndex(copy, line, block);
    if (bytes) {
      copy.scale[at] = static_cast<std::byte>(value);
    } else {
      __builtin_memcpy(copy.scale + 4 * at, &value, sizeof(value));
    }
  }
}

// Computes the multipliers of the blocks from their maxima. Returns false if
// the input holds NaN or Inf and kSpecial is false.
template <DType D, int kBlockSize, bool kSpecial>
QUANTD_FN bool Prepare(const RowJob& job, const Group& g, float (&m)[W]) {
  U all[W];
  U numbers[W];
  for (int b = 0; b < W; ++b) {
    Running<D, kSpecial> running;
    const std::byte* p = g.from + b * kBlockSize * SizeOf(D);
    for (int i = 0; i < kBlockSize; i += 2 * W) {
      running.Add(LoadTwin<D>(p + i * SizeOf(D)));
    }
    all[b] = running.Max();
    if constexpr (kSpecial) numbers[b] = running.Clean();
  }
  const U max = MaxOfEach(all);
  const U clean = kSpecial ? MaxOfEach(numbers) : max;
  const bool ordinary = !L::Any(max >= kInfBits);
  if constexpr (kSpecial) {
    job.seen->nan |= L::Any(max > kInfBits);
    job.seen->inf |= L::Any(clean == kInfBits);
  }
  const BlockScale<L> scale =
      MakeBlockScale<L>(job.params, job.scales, max, clean);
  if (job.params.scaling != Scaling::kTensor) {
    StoreScales(job, g, StoredScale<L>(job.params, scale.stored));
  }
  __builtin_memcpy(m, &scale.m, sizeof(m));
  return ordinary;
}

template <DType D, int kMantissa, int kBlockSize, bool kSpecial, bool kStream>
QUANTD_FN void Encode(const Group& g, const float (&m)[W]) {
  for (int b = 0; b < W; ++b) {
    for (int i = 0; i < kBlockSize; i += kFp8Step) {
      const int at = b * kBlockSize + i;
      EncodeThirtyTwo<D, kMantissa, kSpecial, kStream>(
          g.from + at * SizeOf(D), L::Broadcast(m[b]), g.to + at);
    }
  }
}

// Encodes a group that holds NaN or Inf. Not inlined, so that the common path
// keeps its registers.
template <DType D, int kMantissa, int kBlockSize>
__attribute__((noinline)) void EncodeSpecial(const RowJob& job,
                                             const Group& g) {
  float m[W];
  Prepare<D, kBlockSize, true>(job, g, m);
  Encode<D, kMantissa, kBlockSize, true, false>(g, m);
}

// Encodes any group, without overlapping it with another group.
template <DType D, int kMantissa, int kBlockSize>
QUANTD_FN void EncodeGroup(const RowJob& job, const Group& g) {
  float m[W];
  if (Prepare<D, kBlockSize, false>(job, g, m)) {
    Encode<D, kMantissa, kBlockSize, false, false>(g, m);
  } else {
    EncodeSpecial<D, kMantissa, kBlockSize>(job, g);
  }
}

// Encodes the last blocks of a run, which have `elements` < W * kBlockSize
// elements inside the matrix.
template <DType D, int kMantissa, int kBlockSize>
__attribute__((noinline)) void EncodeTail(const RowJob& job, Group g,
                                          int64_t elements) {
  std::byte values[W * kBlockSize * SizeOf(D)];
  std::byte codes[W * kBlockSize];
  __builtin_memset(values, 0, sizeof(values));
  __builtin_memcpy(values, g.from, elements * SizeOf(D));
  std::byte* to = g.to;
  g.from = values;
  g.to = codes;
  g.count = (elements + kBlockSize - 1) / kBlockSize;
  EncodeGroup<D, kMantissa, kBlockSize>(job, g);
  __builtin_memcpy(to, codes, elements);
}

// Copies a line of at most 32 elements, followed by zeros, always writing 32
// elements. All 32 elements at `from` must be readable; `mask` selects those of
// the line.
QUANTD_FN void CopyMasked(const std::byte* from, const std::byte* mask,
                          size_t bytes, std::byte* to) {
  for (size_t i = 0; i < bytes; i += sizeof(U)) {
    U v, m;
    __builtin_memcpy(&v, from + i, sizeof(v));
    __builtin_memcpy(&m, mask + i, sizeof(m));
    v &= m;
    __builtin_memcpy(to + i, &v, sizeof(v));
  }
}

// Encodes lines [g.line, last) of at most W blocks each, whose last block is
// partial. Encodes as many lines at once as fill a group. `end` is the end of
// readable elements.
template <DType D, int kMantissa, int kBlockSize>
void EncodeShortLines(const RowJob& job, Group g, int64_t last,
                      const std::byte* end) {
  constexpr size_t kFixed = kBlockSize * SizeOf(D);
  const int64_t cols = job.params.cols;
  const int64_t pitch = (cols + kBlockSize - 1) / kBlockSize * kBlockSize;
  const int64_t bytes = cols * SizeOf(D);
  const int64_t most = W * kBlockSize / pitch;
  std::byte values[W * kBlockSize * SizeOf(D)] = {};
  std::byte codes[W * kBlockSize];
  // A line of one short block is read and written in full block length.
  // Elements beyond the line are masked, and the next lines overwrite codes
  // beyond it.
  constexpr bool kOne = kBlockSize == 32;
  std::byte mask[kFixed] = {};
  if (kOne) __builtin_memset(mask, 0xFF, bytes);
  std::byte* const end_of_codes = g.to + (last - g.line) * job.copy.data_line;
  while (g.line < last) {
    const int64_t lines = Least(most, last - g.line);
    for (int64_t i = 0; i < lines; ++i, g.from += bytes) {
      std::byte* const to = values + i * pitch * SizeOf(D);
      if (kOne && g.from + kFixed <= end) {
        CopyMasked(g.from, mask, kFixed, to);
      } else {
        __builtin_memcpy(to, g.from, bytes);
      }
    }
    Group packed = {values, codes, g.line, 0, lines * pitch / kBlockSize};
    EncodeGroup<D, kMantissa, kBlockSize>(job, packed);
    for (int64_t i = 0; i < lines; ++i, g.to += job.copy.data_line) {
      const std::byte* const from = codes + i * pitch;
      if (kOne && g.to + kBlockSize <= end_of_codes) {
        __builtin_memcpy(g.to, from, kBlockSize);
      } else {
        __builtin_memcpy(g.to, from, cols);
      }
    }
    g.line += lines;
  }
}

// Encodes a run of elements: one line, or several consecutive ones.
template <DType D, int kMantissa, int kBlockSize, bool kStream>
void EncodeRun(const RowJob& job, Group g, int64_t elements) {
  constexpr int kStep = kBlockSize * W;
  const auto advance = [&](Group* group) {
    group->from += kStep * SizeOf(D);
    group->to += kStep;
    if (job.params.scaling == Scaling::kTensor) return;
    for (group->block += W; group->block >= job.copy.blocks; ++group->line) {
      group->block -= job.copy.blocks;
    }
  };
  // Computing a group's multipliers from its maxima is a long dependency chain.
  // Encoding the previous group at the same time hides its latency.
  float m[2][W];
  bool ordinary[2];
  Group next = g;
  const int64_t groups = elements / kStep;
  for (int64_t i = 0; i <= groups; ++i) {
    if (i < groups) {
      Prefetch<kStep * SizeOf(D)>(next.from + kAhead);
      ordinary[i % 2] = Prepare<D, kBlockSize, false>(job, next, m[i % 2]);
      advance(&next);
    }
    if (i == 0) continue;
    if (__builtin_expect(ordinary[(i + 1) % 2], true)) {
      Encode<D, kMantissa, kBlockSize, false, kStream>(g, m[(i + 1) % 2]);
    } else {
      EncodeSpecial<D, kMantissa, kBlockSize>(job, g);
    }
    advance(&g);
  }
  if (elements % kStep != 0) {
    EncodeTail<D, kMantissa, kBlockSize>(job, g, elements % kStep);
  }
}

template <DType D, int kMantissa, int kBlockSize, bool kStream>
void EncodeRows(const RowJob& job, const GroupTask& group, int64_t first,
                int64_t last) {
  const CopyTask& copy = job.copy;
  const int64_t cols = job.params.cols;
  const bool tensor = job.params.scaling == Scaling::kTensor;
  Group g = {group.x + first * cols * SizeOf(D),
             copy.data + first * copy.data_line, first, 0, W};
  if (copy.data_line == cols && (tensor || cols % kBlockSize == 0)) {
    // Blocks are independent of lines, so all lines form one run.
    EncodeRun<D, kMantissa, kBlockSize, kStream>(job, g, (last - first) * cols);
    return;
  }
  if (cols <= W * kBlockSize) {
    return EncodeShortLines<D, kMantissa, kBlockSize>(
        job, g, last, group.x + group.rows * cols * SizeOf(D));
  }
  for (; g.line < last; ++g.line) {
    EncodeRun<D, kMantissa, kBlockSize, kStream>(job, g, cols);
    g.from += cols * SizeOf(D);
    g.to += copy.data_line;
  }
}

}  // namespace

void QuantizeFp8Rows(const EncodeParams& e, const GroupTask& group,
                     int64_t first, int64_t last, cpu::Maxima* seen) {
  const CopyTask& copy = group.rowwise;
  const float scale = copy.tensor_scale ? *copy.tensor_scale : 1.0f;
  const RowJob job = {e, copy, MakeLineScale<L>(e, F{}, L::Broadcast(scale)),
                      seen};
  const bool stream =
      MayStream(copy.data, copy.data_line, copy.lines, kFp8Step);
  ForDType(e.input, [&]<DType D>() {
    const auto run = [&]<int kMantissa, int kBlockSize>() {
      stream
          ? EncodeRows<D, kMantissa, kBlockSize, true>(job, group, first, last)
          : EncodeRows<D, kMantissa, kBlockSize, false>(job, group, first,
                                                        last);
    };
    const bool e4m3 = e.element == DType::kE4M3;
    // The code has two block sizes: 32 if `length` is at most 128, else 128. A
    // format with blocks of 128 uses 32 for lines of up to 32 elements, which
    // are a single block of either size. Under a tensor's scale both sizes give
    // the same codes; 32 suits tensors that do not fill a group of W blocks of
    // 128.
    const int64_t length = e.block == 128 ? 4 * e.cols
                           : e.block == 0 ? (last - first) * e.cols / W
                                          : e.block;
    if (e.block == 32 || length <= 128) {
      e4m3 ? run.template operator()<3, 32>()
           : run.template operator()<2, 32>();
    } else {
      e4m3 ? run.template operator()<3, 128>()
           : run.template operator()<2, 128>();
    }
  });
  if (stream) StreamFence();
}

}  // namespace QUANTD_ARITH
}  // namespace quantd
