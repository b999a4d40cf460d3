// Compares shards of a tensor on several server processes with the whole tensor
// on one of them.
#ifndef QUANTD_TESTS_CLIENT_SHARDS_SHARDS_H_
#define QUANTD_TESTS_CLIENT_SHARDS_SHARDS_H_

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/plan/geometry.h"
#include "quantd/distributed.h"
#include "tests/bench/rpc_process.h"
#include "tests/client/calls.h"
#include "tests/client/two_ways.h"

namespace quantd {

using bench::ServerProcess;

inline constexpr int kServers = 3;

// A shard that owns a copy of its part of the tensor.
struct Piece {
  Piece(const Whole& whole, int64_t row, int64_t rows, int64_t column,
        int64_t cols) {
    for (int64_t r = row; r < row + rows; ++r) {
      const auto begin =
          whole.values.begin() + r * whole.desc.shape[1] + column;
      values.insert(values.end(), begin, begin + cols);
    }
    shard = {row,
             column,
             rows,
             cols,
             {reinterpret_cast<const std::byte*>(values.data()),
              values.size() * sizeof(float)}};
  }
  Piece(Piece&&) = default;
  std::vector<float> values;
  Shard shard;
};

class Distributed : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string quantd = bench::FindQuantd();
    ASSERT_NE(quantd, "") << "the quantd binary is not built";
    for (int i = 0; i < kServers; ++i) {
      servers_.push_back(
          std::make_unique<ServerProcess>(std::vector<std::string>{
              quantd, "--listen", "127.0.0.1:0", "--device", "cpu:0"}));
      ASSERT_TRUE(servers_.back()->running()) << servers_.back()->Log();
      clients_.push_back(Connect(servers_.back()->address()));
    }
  }
  static void TearDownTestSuite() {
    clients_.clear();
    servers_.clear();
  }

  // Cuts at `row_cuts` and `col_cuts`, and distributes the shards among the
  // servers.
  static void ExpectWhole(const Whole& whole, const QuantizeOptions& options,
                          std::vector<int64_t> row_cuts,
                          std::vector<int64_t> col_cuts) {
    row_cuts.insert(row_cuts.begin(), 0);
    row_cuts.push_back(whole.desc.shape[0]);
    col_cuts.insert(col_cuts.begin(), 0);
    col_cuts.push_back(whole.desc.shape[1]);
    std::vector<Piece> pieces;
    for (size_t r = 0; r + 1 < row_cuts.size(); ++r) {
      for (size_t c = 0; c + 1 < col_cuts.size(); ++c) {
        pieces.emplace_back(whole, row_cuts[r], row_cuts[r + 1] - row_cuts[r],
                            col_cuts[c], col_cuts[c + 1] - col_cuts[c]);
      }
    }
    std::vector<PlacedShard> shards;
    for (const Piece& p : pieces) {
      shards.push_back({clients_[shards.size() % kServers].get(), p.shard});
    }
    const auto expected =
        clients_[0]->Quantize(whole.desc, whole.bytes(), options);
    ASSERT_THAT(expected, IsOk());
    const auto parts = QuantizeShards(whole.desc, shards, options);
    ASSERT_THAT(parts, IsOk());
    ASSERT_EQ(parts->size(), shards.size());
    for (size_t i = 0; i < shards.size(); ++i) {
      SCOPED_TRACE(fmt::format("shard {} at ({}, {}), {}x{}", i,
                               shards[i].shard.row, shards[i].shard.column,
                               shards[i].shard.rows, shards[i].shard.cols));
      ExpectPart(whole, options, *expected, shards[i].shard, (*parts)[i]);
    }
  }

  static void ExpectPart(const Whole& whole, const QuantizeOptions& options,
                         const Result& expected, const Shard& shard,
                         const Result& part) {
    for (const bool columnwise : {false, true}) {
      if (columnwise ? !HasColumnwise(options.usage)
                     : !HasRowwise(options.usage)) {
        continue;
      }
      ExpectCopy(whole, options, columnwise, expected, shard, part);
    }
  }

  static void ExpectCopy(const Whole& whole, const QuantizeOptions& options,
                         bool columnwise, const Result& expected,
                         const Shard& shard, const Result& part) {
    SCOPED_TRACE(columnwise ? "columnwise" : "rowwise");
    const FormatSpec& format = *FindFormat(options.format);
    const bool rotated =
        columnwise ? options.rht.columnwise : options.rht.rowwise;
    const auto form = [&](int64_t rows, int64_t cols) {
      return MakeCopyGeometry(
          format, columnwise, rows, cols, rotated ? options.rht.dimension : 0,
          options.form.scale_layout, options.form.compact_scales);
    };
    const CopyGeometry all = form(whole.desc.shape[0], whole.desc.shape[1]);
    const CopyGeometry some = form(shard.rows, shard.cols);
    const int64_t line = columnwise ? shard.column : shard.row;
    const int64_t position = columnwise ? shard.row : shard.column;
    const auto bytes = [&](const Result& r, TensorKind row, TensorKind column) {
      return r.bytes(columnwise ? column : row);
    };

    // Codes per byte: one byte holds two 4-bit codes.
    const int packed = format.element == DType::kE2M1x2 ? 2 : 1;
    const auto data =
        bytes(expected, TensorKind::kRowwiseData, TensorKind::kColumnwiseData);
    const auto got =
        bytes(part, TensorKind::kRowwiseData, TensorKind::kColumnwiseData);
    size_t wrong = 0;
    for (int64_t l = 0; l < some.lines; ++l) {
      for (int64_t p = 0; p < some.padded / packed; ++p) {
        const int64_t at = (line + l) * all.data_line +
                           (position / packed + p) * all.data_position;
        wrong += data[at] != got[l * some.data_line + p * some.data_position];
      }
    }
    EXPECT_EQ(wrong, 0u) << "codes differ";

    const auto scales = bytes(expected, TensorKind::kRowwiseScale,
                              TensorKind::kColumnwiseScale);
    const auto got_scales =
        bytes(part, TensorKind::kRowwiseScale, TensorKind::kColumnwiseScale);
    const size_t size = SizeOf(format.scale);
    const int64_t block = format.block == 0 ? 0 : position / format.block;
    wrong = 0;
    for (int64_t l = 0; l < some.lines; ++l) {
      for (int64_t b = 0; b < some.blocks; ++b) {
        const auto a = ScaleIndex(all, line + l, block + b) * size;
        const auto s = ScaleIndex(some, l, b) * size;
        wrong += std::memcmp(&scales[a], &got_scales[s], size) != 0;
      }
    }
    EXPECT_EQ(wrong, 0u) << "scales differ";

    const TensorKind kind =
        columnwise ? TensorKind::kColumnwiseAmax : TensorKind::kRowwiseAmax;
    const auto amax = expected.amaxes(kind);
    const auto got_amax = part.amaxes(kind);
    ASSERT_EQ(amax.empty(), got_amax.empty());
    for (size_t i = 0; i < got_amax.size(); ++i) {
      const size_t first = HasAmaxOfLines(format, options.form) ? line : 0;
      EXPECT_EQ(amax[first + i], got_amax[i]);
    }
  }

  static QuantizeOptions Of(Format format, Usage usage = Usage::kBoth) {
    QuantizeOptions o;
    o.format = format;
    o.usage = usage;
    return o;
  }

  static inline std::vector<std::unique_ptr<ServerProcess>> servers_;
  static inline std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_SHARDS_SHARDS_H_
