// Which kernel computes what, on every device and without one: for every
// format, option, dtype and usage that the support table allows.
#include "kernels/cuda/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <variant>

#include "fmt/format.h"
#include "kernels/cpu/choice.h"
#include "kernels/device/recipe.h"
#include "tests/kernels/device/plan_rows.h"

namespace quantd {
namespace {

using cuda::AmaxKernel;
using cuda::DbiasKernel;
using cuda::DecodeKernel;
using cuda::EncodeKernel;
using cuda::RotateKernel;

std::string Label(const QuantizeRow& row) {
  return fmt::format("{} {} of {}: {}", row.format.name, Name(row.usage),
                     Name(row.dtype), row.settings);
}

cuda::KernelChoice OnCuda(const Plan& plan) {
  return cuda::ChooseKernels(plan, MakeRecipe(plan));
}
cpu::KernelChoice OnCpu(const Plan& plan) {
  return cpu::ChooseKernels(plan, MakeRecipe(plan));
}

const QuantizeOptions& OptionsOf(const Plan& plan) {
  return std::get<QuantizeOptions>(plan.options());
}

TEST(ChoiceTest, EveryOptionOfEveryFormatHasRows) {
  std::map<Format, uint32_t> seen;
  std::set<std::string> settings;
  size_t rows = 0;
  ForQuantizeRows(1, [&](const QuantizeRow& row) {
    seen[row.format.format] |= row.options;
    settings.insert(row.settings);
    ++rows;
  });
  for (const FormatSpec& format : kFormats) {
    EXPECT_EQ(seen[format.format], format.options) << format.name;
  }
  for (const OptionSpec& spec : Options()) {
    ASSERT_FALSE(SettingsOf(spec.option).empty()) << spec.name;
    for (const Setting& s : SettingsOf(spec.option)) {
      EXPECT_TRUE(settings.contains(s.name)) << s.name << " is never legal";
    }
  }
  for (const Setting& s : Shapes()) {
    EXPECT_TRUE(settings.contains(s.name)) << s.name << " is never legal";
  }
  EXPECT_GT(rows, 1000u);
}

// The columns of all chunks of 128 rows.
int64_t ColumnsOfChunks(const Plan& plan) {
  int64_t chunks = 0;
  for (const Group& g : plan.groups()) chunks += (g.rows + 127) / 128;
  return chunks * plan.cols();
}

// Encoders that are better than the frame where they know a plan.
constexpr EncodeKernel kBetter[] = {
    EncodeKernel::kQuantizeRows,     EncodeKernel::kNvfp4Rows,
    EncodeKernel::kNvfp4Tiles,       EncodeKernel::kNvfp4Squares,
    EncodeKernel::kNvfp4ScaledRows,  EncodeKernel::kNvfp4Stochastic,
    EncodeKernel::kNvfp4FourOverSix, EncodeKernel::kNvfp4UnderGlobal,
    EncodeKernel::kFp8Runs,          EncodeKernel::kFp8Rows,
    EncodeKernel::kFp8Tiles,         EncodeKernel::kFp8Strips};

// Whether sixteen positions never have the random bytes of two counters.
bool DrawsWhole(const QuantizeRow& row) {
  const QuantizeOptions& o = OptionsOf(row.plan);
  const bool rows =
      row.usage == Usage::kColumnwise || o.shard.column_offset % 16 == 0;
  bool columns = true;
  for (const Group& g : row.plan.groups()) {
    columns = columns && (o.shard.row_offset + g.row) % 16 == 0;
  }
  return rows && (columns || row.usage == Usage::kRowwise);
}

// What each encoder knows, as its source says it.
bool Knows(EncodeKernel kernel, const QuantizeRow& row) {
  const QuantizeOptions& o = OptionsOf(row.plan);
  const auto has = [&](uint32_t options) {
    return (row.options & options) != 0;
  };
  const int64_t columns = ColumnsOfChunks(row.plan);
  const bool rowwise_alone = row.usage == Usage::kRowwise;
  const bool sixteen = !has(kOptRht) || o.rht.dimension == 16;
  const bool nvfp4 =
      row.format.scaling == Scaling::kNvfp4 && sixteen &&
      row.plan.cols() % 16 == 0 &&
      (!has(kOptRowScaled) || kernel == EncodeKernel::kNvfp4ScaledRows);
  // (The one profile of the rows has another arithmetic.)
  const bool te = !has(kOptProfile);
  const bool nvfp4_counts = nvfp4 && row.plan.rows() < int64_t{1} << 31 &&
                            columns < (int64_t{1} << 32) - 1;
  const bool nvfp4_two_bytes = nvfp4_counts && row.dtype != DType::kF32;
  const bool nvfp4_rows =
      nvfp4_two_bytes && !row.format.square && rowwise_alone;
  // Tiles rotate bf16 alone.
  const bool rotates = (HasRowwise(row.usage) && o.rht.rowwise) ||
                       (HasColumnwise(row.usage) && o.rht.columnwise);
  const bool rotatable = row.dtype == DType::kBF16 || !rotates;
  const bool nearest = !has(kOptStochastic | kOptFourOverSix);
  // A block's random bytes are those of one counter.
  const bool nvfp4_tiles =
      nvfp4_two_bytes && rotatable && (!has(kOptStochastic) || DrawsWhole(row));
  // fp32, one tensor.
  const bool one = nvfp4 && te && !row.format.square && nearest &&
                   row.dtype == DType::kF32 &&
                   !has(kOptGrouped | kOptSwizzled | kOptStatistics);
  const bool fp8 = row.format.element != DType::kE2M1x2 && !row.format.square &&
                   row.dtype != DType::kF32 && row.plan.cols() % 8 == 0 &&
                   columns < (int64_t{1} << 31) - 1 &&
                   row.format.scaling != Scaling::kChannel && !has(kOptRht);
  const bool tensor = row.format.scaling == Scaling::kTensor;
  switch (kernel) {
    case EncodeKernel::kNone:
      return row.usage == Usage::kNone;
    case EncodeKernel::kQuantizeRows:
      return one && rowwise_alone;
    case EncodeKernel::kNvfp4Rows:
      return nvfp4_rows && te && nearest && (!rotatable || !has(kOptDbias));
    case EncodeKernel::kNvfp4ScaledRows:
      return nvfp4_rows && te && nearest && has(kOptRowScaled);
    case EncodeKernel::kNvfp4UnderGlobal:
      return nvfp4_rows && !te;
    case EncodeKernel::kNvfp4Tiles:
      return nvfp4_tiles &&
             (row.format.square
                  ? has(kOptStochastic)
                  : !rowwise_alone || (nearest && has(kOptDbias)));
    case EncodeKernel::kNvfp4Squares:
      return nvfp4_tiles && row.format.square && !has(kOptStochastic);
    case EncodeKernel::kNvfp4Stochastic:
      return nvfp4_rows && has(kOptStochastic) &&
             o.shard.column_offset % 16 == 0;
    case EncodeKernel::kNvfp4FourOverSix:
      return nvfp4_rows && has(kOptFourOverSix);
    case EncodeKernel::kFp8Runs:
      return fp8 && tensor && rowwise_alone && !has(kOptDbias);
    case EncodeKernel::kFp8Rows:
      // (Profiles of MX multiply, too; but under NaN a zero is one.)
      return fp8 && !tensor && rowwise_alone && !has(kOptDbias) &&
             (te || (row.format.scaling == Scaling::kMx &&
                     o.non_finite != NonFinite::kPropagate));
    case EncodeKernel::kFp8Strips:
      return fp8 && row.format.scaling == Scaling::kMx && !rowwise_alone &&
             !has(kOptDbias | kOptSwizzled);
    case EncodeKernel::kFp8Tiles:
      return fp8 && (!rowwise_alone || has(kOptDbias)) &&
             !Knows(EncodeKernel::kFp8Strips, row);
    case EncodeKernel::kFrame: {
      // Rows for the copy engine; errors that are not counted; a table of two
      // scales for a group, not for a line.
      const bool reaches =
          row.plan.cols() * static_cast<int64_t>(SizeOf(row.dtype)) % 16 == 0 &&
          row.plan.rows() < int64_t{1} << 31 &&
          columns < (int64_t{1} << 32) - 1 &&
          (!has(kOptStochastic) || DrawsWhole(row)) &&
          !(has(kOptFourOverSix) && has(kOptRowScaled));
      return row.usage != Usage::kNone && reaches &&
             std::none_of(
                 std::begin(kBetter), std::end(kBetter),
                 [&](EncodeKernel better) { return Knows(better, row); });
    }
    case EncodeKernel::kSpans:
      return row.usage != Usage::kNone;
  }
  return false;
}

cuda::ErrorsKernel WantedErrors(const QuantizeRow& row) {
  const QuantizeOptions& o = OptionsOf(row.plan);
  if (!o.statistics || row.usage == Usage::kNone) {
    return cuda::ErrorsKernel::kNone;
  }
  const bool rotated = (HasRowwise(row.usage) && o.rht.rowwise) ||
                       (HasColumnwise(row.usage) && o.rht.columnwise);
  const bool small = row.plan.rows() < int64_t{1} << 28 &&
                     row.plan.cols() < int64_t{1} << 28 &&
                     ColumnsOfChunks(row.plan) < int64_t{1} << 35;
  return !rotated && (row.options & kOptProfile) == 0 && small &&
                 row.plan.cols() % 16 == 0
             ? cuda::ErrorsKernel::kTiles
             : cuda::ErrorsKernel::kSpans;
}

TEST(ChoiceTest, CudaEncodesByTheOneKernelThatKnowsThePlan) {
  std::map<EncodeKernel, size_t> taken;
  size_t rows = 0;
  ForQuantizeRows(3, [&](const QuantizeRow& row) {
    const cuda::KernelChoice choice = OnCuda(row.plan);
    const EncodeKernel got = choice.encode;
    EXPECT_EQ(choice.errors, WantedErrors(row)) << Label(row);
    ++taken[got];
    ++rows;
    EncodeKernel wanted =
        row.usage == Usage::kNone ? EncodeKernel::kNone : EncodeKernel::kSpans;
    int know = 0;
    if (Knows(EncodeKernel::kFrame, row)) wanted = EncodeKernel::kFrame;
    for (const EncodeKernel kernel : kBetter) {
      if (row.usage == Usage::kNone || !Knows(kernel, row)) continue;
      wanted = kernel;
      ++know;
    }
    EXPECT_LE(know, 1) << Label(row);
    EXPECT_EQ(got, wanted) << Label(row) << ": " << cuda::Name(got) << ", not "
                           << cuda::Name(wanted);
  });
  EXPECT_EQ(taken.size(), std::size(kBetter) + 3) << "a kernel is never taken";
  RecordProperty("rows", static_cast<int>(rows));
  fmt::print("{} rows\n", rows);
}

TEST(ChoiceTest, CudaSearchesByWhatTheRecipeAsksFor) {
  std::set<AmaxKernel> taken;
  const auto check = [&](const Plan& plan, const std::string& label) {
    const Recipe r = MakeRecipe(plan);
    const AmaxKernel got = OnCuda(plan).amax;
    taken.insert(got);
    if (!r.search.any()) {
      EXPECT_EQ(got, AmaxKernel::kNone) << label;
      return;
    }
    const bool one = !plan.grouped() && !r.search.lines &&
                     (!r.search.rotates() || r.rotation->dimension == 16);
    const bool cores = plan.tensor().dtype == DType::kBF16 &&
                       plan.cols() % 16 == 0 &&
                       plan.rows() < int64_t{1} << 31 && r.search.rotates();
    const auto row_bytes =
        plan.cols() * static_cast<int64_t>(SizeOf(plan.tensor().dtype));
    const bool lines = !r.search.rotates() && row_bytes % 16 == 0 &&
                       ColumnsOfChunks(plan) < (int64_t{1} << 31) - 1;
    EXPECT_EQ(got, !one && lines         ? AmaxKernel::kLines
                   : !one                ? AmaxKernel::kSpans
                   : cores               ? AmaxKernel::kTensorCores
                   : r.search.rotated[1] ? AmaxKernel::kTiles
                   : r.search.rotated[0] ? AmaxKernel::kRows
                                         : AmaxKernel::kPlain)
        << label << ": " << cuda::Name(got);
  };
  ForQuantizeRows(2,
                  [&](const QuantizeRow& row) { check(row.plan, Label(row)); });
  ForRhtAmaxRows([&](const PlanRow& row) { check(row.plan, row.settings); });
  EXPECT_EQ(taken.size(), 7u) << "a kernel is never taken";
}

TEST(ChoiceTest, TheEncoderSumsChunksOnlyWhereItWalksOverTiles) {
  const std::set<EncodeKernel> tiles = {
      EncodeKernel::kNvfp4Tiles, EncodeKernel::kNvfp4Squares,
      EncodeKernel::kFp8Tiles, EncodeKernel::kFrame};
  ForQuantizeRows(2, [&](const QuantizeRow& row) {
    const cuda::KernelChoice c = OnCuda(row.plan);
    const DbiasKernel wanted = !OptionsOf(row.plan).dbias ? DbiasKernel::kNone
                               : tiles.contains(c.encode)
                                   ? DbiasKernel::kEncoder
                                   : DbiasKernel::kChunks;
    EXPECT_EQ(c.dbias, wanted) << Label(row) << ": " << ToString(c);
    EXPECT_EQ(OnCpu(row.plan).dbias, OptionsOf(row.plan).dbias) << Label(row);
  });
}

// Tables of groups are filled and copied only for kernels that read them: a
// small tensor pays for the copy.
TEST(ChoiceTest, OnlyKernelsOfOneTensorGoWithoutTheListOfGroups) {
  ForQuantizeRows(1, [&](const QuantizeRow& row) {
    const cuda::KernelChoice c = OnCuda(row.plan);
    const bool one = c.amax != AmaxKernel::kLines &&
                     c.amax != AmaxKernel::kSpans &&
                     (c.encode == EncodeKernel::kNone ||
                      c.encode == EncodeKernel::kQuantizeRows) &&
                     c.dbias == DbiasKernel::kNone;
    EXPECT_EQ(c.reads_groups(), !one) << Label(row) << ": " << ToString(c);
    EXPECT_GE(c.reads_groups(), row.plan.grouped()) << Label(row);
  });
}

TEST(ChoiceTest, CudaDecodesAndRotates) {
  std::map<DecodeKernel, size_t> decoded;
  ForDequantizeRows([&](const PlanRow& row) {
    const auto& o = std::get<DequantizeOptions>(row.plan.options());
    const FormatSpec& format = *FindFormat(o.format);
    const bool columnwise = o.usage == Usage::kColumnwise;
    const bool mxfp8 =
        format.scaling == Scaling::kMx && format.element != DType::kE2M1x2;
    const bool spans = o.inverse_rht && o.rht_dimension != 16;
    const DecodeKernel wanted =
        spans                                  ? DecodeKernel::kSpans
        : columnwise && mxfp8 && o.inverse_rht ? DecodeKernel::kRotatedInPlace
        : columnwise && mxfp8                  ? DecodeKernel::kColumnsInPlace
        : columnwise                           ? DecodeKernel::kColumns
        : o.inverse_rht                        ? DecodeKernel::kRotatedRows
                                               : DecodeKernel::kRows;
    EXPECT_EQ(OnCuda(row.plan).decode, wanted) << row.format << row.settings;
    ++decoded[wanted];
  });
  EXPECT_EQ(decoded.size(), 6u);
  ForApplyRhtRows([&](const PlanRow& row) {
    const auto& o = std::get<ApplyRhtOptions>(row.plan.options());
    EXPECT_EQ(OnCuda(row.plan).rotate, o.rht_dimension == 16
                                           ? RotateKernel::kBlocks
                                           : RotateKernel::kSpans);
    EXPECT_EQ(OnCpu(row.plan).rotate, o.rht_dimension == 16
                                          ? cpu::RotateKernel::kBlocks
                                          : cpu::RotateKernel::kLines);
  });
}

TEST(ChoiceTest, TheCpuChoosesForEachCopy) {
  std::set<cpu::EncodeKernel> taken;
  ForQuantizeRows(2, [&](const QuantizeRow& row) {
    const QuantizeOptions& o = OptionsOf(row.plan);
    const auto has = [&](uint32_t options) {
      return (row.options & options) != 0;
    };
    const cpu::KernelChoice c = OnCpu(row.plan);
    for (const bool columnwise : {false, true}) {
      const bool wanted =
          columnwise ? HasColumnwise(row.usage) : HasRowwise(row.usage);
      const bool rotated = columnwise ? o.rht.columnwise : o.rht.rowwise;
      const bool plain = row.format.format == Format::kNvfp4 &&
                         !has(kOptRowScaled | kOptStatistics) &&
                         (!has(kOptRht) || o.rht.dimension == 16) &&
                         (!has(kOptStochastic) || DrawsWhole(row.plan, o));
      const bool fp8 = row.format.element != DType::kE2M1x2 &&
                       row.format.scaling != Scaling::kChannel &&
                       !has(kOptStatistics | kOptProfile) && !rotated;
      const auto got = columnwise ? c.encode.columnwise : c.encode.rowwise;
      EXPECT_EQ(got, !wanted                    ? cpu::EncodeKernel::kNone
                     : plain                    ? cpu::EncodeKernel::kNvfp4
                     : fp8 && row.format.square ? cpu::EncodeKernel::kFp8Squares
                     : fp8 && columnwise        ? cpu::EncodeKernel::kFp8Columns
                     : fp8                      ? cpu::EncodeKernel::kFp8Rows
                                                : cpu::EncodeKernel::kLines)
          << Label(row) << ": " << cpu::Name(got);
      taken.insert(got);
    }
    const Search search = MakeRecipe(row.plan).search;
    EXPECT_EQ(c.amax,
              !search.any() ? cpu::AmaxKernel::kNone
              : search.lines || (search.rotates() && o.rht.dimension != 16)
                  ? cpu::AmaxKernel::kLines
                  : cpu::AmaxKernel::kTiles)
        << Label(row);
  });
  EXPECT_EQ(taken.size(), 6u) << "a function is never taken";
  ForDequantizeRows([&](const PlanRow& row) {
    const auto& o = std::get<DequantizeOptions>(row.plan.options());
    const bool plain = o.format == Format::kNvfp4 &&
                       o.form.scale_layout == Layout::kLinear &&
                       !o.form.row_scaled && !o.form.scale_256 &&
                       (!o.inverse_rht || o.rht_dimension == 16);
    EXPECT_EQ(OnCpu(row.plan).decode, !plain ? cpu::DecodeKernel::kLines
                                      : o.usage == Usage::kColumnwise
                                          ? cpu::DecodeKernel::kNvfp4Columns
                                          : cpu::DecodeKernel::kNvfp4Rows)
        << row.format << row.settings;
  });
}

TEST(ChoiceTest, IsPrintable) {
  TensorDesc tensor = {.dtype = DType::kBF16, .shape = {256, 512}};
  QuantizeOptions o;
  o.format = Format::kNvfp4;
  o.usage = Usage::kBoth;
  o.rht.columnwise = true;
  o.dbias = true;
  const absl::StatusOr<Plan> plan = MakeQuantizePlan(tensor, o);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(ToString(OnCuda(*plan)),
            "amax AmaxByTensorCores, encode EncodeNvfp4Tiles, dbias by the "
            "encoder");
  EXPECT_EQ(ToString(OnCpu(*plan)),
            "amax Amax, encode rows QuantizeNvfp4, encode columns "
            "QuantizeNvfp4, dbias SumChunk");
}

}  // namespace
}  // namespace quantd
