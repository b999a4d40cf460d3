// The kernels that compute each plan on the CPU and on CUDA, tested without a
// device, for every format, option, dtype and usage that the support table
// allows. encode_choice_test.cc tests CUDA's encoders.
#include "kernels/cuda/choice.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
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

// The total number of columns of all chunks of 128 rows.
int64_t ColumnsOfChunks(const Plan& plan) {
  int64_t chunks = 0;
  for (const Group& g : plan.groups()) chunks += (g.rows + 127) / 128;
  return chunks * plan.cols();
}

TEST(ChoiceTest, CudaChoosesTheSearchByTheRecipe) {
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

bool WalksOverTiles(std::string_view name) {
  return name.starts_with("Frame") || name.ends_with("Tiles") ||
         name.ends_with("Squares");
}

TEST(ChoiceTest, TheEncoderSumsChunksOnlyWhereItWalksOverTiles) {
  ForQuantizeRows(2, [&](const QuantizeRow& row) {
    const cuda::KernelChoice c = OnCuda(row.plan);
    const DbiasKernel wanted = !OptionsOf(row.plan).dbias ? DbiasKernel::kNone
                               : WalksOverTiles(cuda::Name(c.encode))
                                   ? DbiasKernel::kEncoder
                                   : DbiasKernel::kChunks;
    EXPECT_EQ(c.dbias, wanted) << Label(row) << ": " << ToString(c);
    EXPECT_EQ(OnCpu(row.plan).dbias, OptionsOf(row.plan).dbias) << Label(row);
  });
}

// Tables of groups are filled and copied only for kernels that read them,
// because the copy is expensive for a small tensor.
TEST(ChoiceTest, OnlyKernelsForOneTensorNeedNoGroupTable) {
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

// Options that the CPU's tuned functions support. Only the generic function
// supports any other option.
constexpr uint32_t kNvfp4Supports =
    kOptRht | kOptStochastic | kOptFourOverSix | kOptScaleSearch |
    kOptSwizzled | kOptGivenAmax | kOptEstimation | kOptGrouped | kOptDbias |
    kOptProfile | kOptCompact;
constexpr uint32_t kFp8Supports =
    kOptRht | kOptSwizzled | kOptGivenAmax | kOptEpsilon | kOptPowerOfTwo |
    kOptGivenScale | kOptHistory | kOptScaleRule | kOptGrouped | kOptDbias;

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
      const bool nvfp4 = row.format.format == Format::kNvfp4 ||
                         row.format.format == Format::kNvfp4Square;
      const bool plain = nvfp4 && !has(~kNvfp4Supports) &&
                         (!has(kOptRht) || o.rht.dimension == 16) &&
                         (!has(kOptStochastic) || DrawsWhole(row.plan, o));
      const bool fp8 = row.format.element != DType::kE2M1x2 &&
                       row.format.scaling != Scaling::kChannel &&
                       !has(~kFp8Supports) && !rotated;
      const auto got = columnwise ? c.encode.columnwise : c.encode.rowwise;
      EXPECT_EQ(got, !wanted ? cpu::EncodeKernel::kNone
                     : plain && row.format.square
                         ? cpu::EncodeKernel::kNvfp4Squares
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
  EXPECT_EQ(taken.size(), 7u) << "a function is never taken";
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
