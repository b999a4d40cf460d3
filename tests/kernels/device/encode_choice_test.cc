// The kernel that encodes each plan on CUDA, tested without a device, for every
// format, option, dtype and usage that the support table allows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "kernels/cuda/choice.h"
#include "kernels/device/recipe.h"
#include "tests/kernels/device/plan_rows.h"

namespace quantd {
namespace {

using cuda::DbiasKernel;
using cuda::EncodeKernel;
using ::testing::ElementsAre;

std::string Label(const QuantizeRow& row) {
  return fmt::format("{} {} of {}: {}", row.format.name, Name(row.usage),
                     Name(row.dtype), row.settings);
}

const QuantizeOptions& OptionsOf(const Plan& plan) {
  return std::get<QuantizeOptions>(plan.options());
}

// The total number of columns of all chunks of 128 rows.
int64_t ColumnsOfChunks(const Plan& plan) {
  int64_t chunks = 0;
  for (const Group& g : plan.groups()) chunks += (g.rows + 127) / 128;
  return chunks * plan.cols();
}

// Encoders that support only certain plans.
constexpr EncodeKernel kSpecialEncoders[] = {
    EncodeKernel::kQuantizeRows,
    EncodeKernel::kNvfp4Rows,
    EncodeKernel::kNvfp4ScaledRows,
    EncodeKernel::kNvfp4Stochastic,
    EncodeKernel::kNvfp4FourOverSix,
    EncodeKernel::kNvfp4UnderGlobal,
    EncodeKernel::kNvfp4Tiles,
    EncodeKernel::kNvfp4StochasticTiles,
    EncodeKernel::kNvfp4FourOverSixTiles,
    EncodeKernel::kNvfp4Squares,
    EncodeKernel::kNvfp4StochasticSquares,
    EncodeKernel::kNvfp4FourOverSixSquares,
    EncodeKernel::kFp8Runs,
    EncodeKernel::kFp8QuotientRuns,
    EncodeKernel::kFp8BlockRows,
    EncodeKernel::kMxfp8Rows,
    EncodeKernel::kFp8TensorTiles,
    EncodeKernel::kFp8BlockTiles,
    EncodeKernel::kMxfp8Tiles,
    EncodeKernel::kMxfp8Strips};

// Options that QuantizeRows supports, and those that some kernel for NVFP4 or
// FP8 supports. Only the generic kernel supports any other option.
constexpr uint32_t kPlain =
    kOptRht | kOptGivenAmax | kOptEstimation | kOptDbias;
constexpr uint32_t kNvfp4Supports = kPlain | kOptStochastic | kOptFourOverSix |
                                    kOptSwizzled | kOptCompact | kOptRowScaled |
                                    kOptGrouped | kOptStatistics | kOptProfile;
constexpr uint32_t kFp8Supports = kOptSwizzled | kOptGivenAmax | kOptEpsilon |
                                  kOptPowerOfTwo | kOptGivenScale |
                                  kOptHistory | kOptScaleRule | kOptGrouped |
                                  kOptDbias | kOptStatistics | kOptProfile;

// Whether sixteen positions always get their random bytes from a single
// counter.
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

bool Rotates(const QuantizeRow& row) {
  const RhtOptions& rht = OptionsOf(row.plan).rht;
  return (HasRowwise(row.usage) && rht.rowwise) ||
         (HasColumnwise(row.usage) && rht.columnwise);
}

// Whether an encoder supports a plan, according to the encoder's source.
bool IsMadeFor(EncodeKernel kernel, const QuantizeRow& row) {
  using enum EncodeKernel;
  const QuantizeOptions& o = OptionsOf(row.plan);
  const auto has = [&](uint32_t options) {
    return (row.options & options) != 0;
  };
  const int64_t columns = ColumnsOfChunks(row.plan);
  const bool rowwise_alone = row.usage == Usage::kRowwise;
  const bool two_bytes = row.dtype != DType::kF32;
  const bool square = row.format.square;
  // (Rows that use kOptProfile have a profile other than `te`.)
  const bool te = !has(kOptProfile);
  const bool scaled = has(kOptRowScaled);
  const bool nearest = !has(kOptStochastic | kOptFourOverSix);
  const bool nvfp4 =
      row.format.scaling == Scaling::kNvfp4 && !has(~kNvfp4Supports) &&
      (!has(kOptRht) || o.rht.dimension == 16) && row.plan.cols() % 16 == 0;
  // Tiles rotate only bf16.
  const bool rotatable = row.dtype == DType::kBF16 || !Rotates(row);
  // The random bytes of a block must come from a single counter.
  const bool draws = !has(kOptStochastic) || DrawsWhole(row);
  const bool nvfp4_words = nvfp4 && two_bytes && draws &&
                           row.plan.rows() < int64_t{1} << 31 &&
                           columns < (int64_t{1} << 32) - 1;
  const bool rows = nvfp4_words && !square && rowwise_alone;
  const bool tiles = nvfp4_words && rotatable && !scaled && te;
  const bool blocks = tiles && !square && !rowwise_alone;
  const bool fp8 = row.format.element != DType::kE2M1x2 && !square &&
                   two_bytes && row.plan.cols() % 8 == 0 &&
                   columns < (int64_t{1} << 31) - 1 && !has(~kFp8Supports);
  const bool tensor = fp8 && row.format.scaling == Scaling::kTensor;
  const bool block = fp8 && row.format.scaling == Scaling::kBlock && te;
  // (Profiles of MX multiply, too, but a zero times NaN must stay a zero.)
  const bool mx = fp8 && row.format.scaling == Scaling::kMx &&
                  (te || o.non_finite != NonFinite::kPropagate);
  const bool alone = rowwise_alone && !has(kOptDbias);
  const bool strips = !rowwise_alone && !has(kOptDbias | kOptSwizzled);
  switch (kernel) {
    case kQuantizeRows:
      return nvfp4 && !square && rowwise_alone && !two_bytes && !has(~kPlain);
    case kNvfp4Rows:
      return rows && te && nearest && !scaled &&
             (!rotatable || !has(kOptDbias));
    case kNvfp4ScaledRows:
      return rows && te && nearest && scaled;
    case kNvfp4Stochastic:
      return rows && has(kOptStochastic) && !scaled;
    case kNvfp4FourOverSix:
      return rows && has(kOptFourOverSix) && !scaled;
    case kNvfp4UnderGlobal:
      return rows && !te && !scaled;
    case kNvfp4Tiles:
      return nearest && (blocks || (tiles && rows && has(kOptDbias)));
    case kNvfp4StochasticTiles:
      return blocks && has(kOptStochastic);
    case kNvfp4FourOverSixTiles:
      return blocks && has(kOptFourOverSix);
    case kNvfp4Squares:
      return tiles && square && nearest;
    case kNvfp4StochasticSquares:
      return tiles && square && has(kOptStochastic);
    case kNvfp4FourOverSixSquares:
      return tiles && square && has(kOptFourOverSix);
    case kFp8Runs:
      return tensor && alone && te;
    case kFp8QuotientRuns:
      return tensor && alone && !te;
    case kFp8BlockRows:
      return block && alone;
    case kMxfp8Rows:
      return mx && alone;
    case kFp8TensorTiles:
      return tensor && !alone;
    case kFp8BlockTiles:
      return block && !alone;
    case kMxfp8Tiles:
      return mx && !alone && !strips;
    case kMxfp8Strips:
      return mx && strips;
    default:
      return false;
  }
}

// The name of the frame's cell for a plan, composed of the cell's parameters.
std::string CellOf(const QuantizeRow& row) {
  const auto has = [&](uint32_t options) {
    return (row.options & options) != 0;
  };
  const bool e2m1 = row.format.element == DType::kE2M1x2;
  std::string name = row.format.scaling == Scaling::kNvfp4 ? "FrameNvfp4"
                     : row.format.scaling == Scaling::kMx
                         ? (e2m1 ? "FrameMxfp4" : "FrameMxfp8")
                         : "FrameFp8";
  if (has(kOptStochastic)) name += "Stochastic";
  if (has(kOptFourOverSix)) name += "FourOverSix";
  if (has(kOptScaleSearch)) name += "ScaleSearch";
  if (row.format.square) {
    name += "Squares";
  } else if (row.format.scaling == Scaling::kBlock) {
    return name + "Blocks";
  } else if (name == "FrameFp8") {
    name += "Lines";
  }
  if (Rotates(row)) name += "Rotated";
  return has(kOptProfile) ? name + "OfProfiles" : name;
}

// Whether the frame supports a plan: it knows the options, rows fit the copy
// engine, indices fit 32 bits, a block draws from one counter, and 4over6 and
// scale search are not row-scaled.
bool FrameSupports(const QuantizeRow& row) {
  const auto row_bytes =
      row.plan.cols() * static_cast<int64_t>(SizeOf(row.dtype));
  return (row.options & ~(kNvfp4Supports | kFp8Supports | kOptScaleSearch)) ==
             0 &&
         row_bytes % 16 == 0 && row.plan.rows() < int64_t{1} << 31 &&
         ColumnsOfChunks(row.plan) < (int64_t{1} << 32) - 1 &&
         ((row.options & kOptStochastic) == 0 || DrawsWhole(row)) &&
         !((row.options & (kOptFourOverSix | kOptScaleSearch)) != 0 &&
           (row.options & kOptRowScaled) != 0);
}

cuda::ErrorsKernel WantedErrors(const QuantizeRow& row) {
  const QuantizeOptions& o = OptionsOf(row.plan);
  if (!o.statistics || row.usage == Usage::kNone) {
    return cuda::ErrorsKernel::kNone;
  }
  const bool small = row.plan.rows() < int64_t{1} << 28 &&
                     row.plan.cols() < int64_t{1} << 28 &&
                     ColumnsOfChunks(row.plan) < int64_t{1} << 35;
  return !Rotates(row) && (row.options & kOptProfile) == 0 && small &&
                 row.plan.cols() % 16 == 0
             ? cuda::ErrorsKernel::kTiles
             : cuda::ErrorsKernel::kSpans;
}

TEST(EncodeChoiceTest, CudaChoosesTheKernelMadeForThePlanOrTheFrame) {
  std::set<EncodeKernel> taken;
  size_t rows = 0;
  ForQuantizeRows(3, [&](const QuantizeRow& row) {
    const cuda::KernelChoice choice =
        cuda::ChooseKernels(row.plan, MakeRecipe(row.plan));
    EXPECT_EQ(choice.errors, WantedErrors(row)) << Label(row);
    taken.insert(choice.encode);
    ++rows;
    std::vector<std::string> wanted;
    for (const EncodeKernel kernel : kSpecialEncoders) {
      if (row.usage != Usage::kNone && IsMadeFor(kernel, row)) {
        wanted.emplace_back(cuda::Name(kernel));
      }
    }
    if (wanted.empty()) {
      wanted.push_back(row.usage == Usage::kNone ? "-"
                       : FrameSupports(row)      ? CellOf(row)
                                                 : "EncodeSpans");
    }
    EXPECT_THAT(wanted, ElementsAre(cuda::Name(choice.encode))) << Label(row);
  });
  EXPECT_EQ(taken.size(), static_cast<size_t>(EncodeKernel::kSpans) + 1)
      << "a kernel is never taken";
  RecordProperty("rows", static_cast<int>(rows));
  fmt::print("{} rows\n", rows);
}

// A tile of rotated fp32 does not fit into the shared memory of a thread block
// on every GPU.
TEST(EncodeChoiceTest, SmallSharedMemoryLeavesRotatedFloatsToSpans) {
  size_t moved = 0;
  ForQuantizeRows(2, [&](const QuantizeRow& row) {
    const Recipe recipe = MakeRecipe(row.plan);
    const cuda::KernelChoice large = cuda::ChooseKernels(row.plan, recipe);
    EXPECT_EQ(
        cuda::ChooseKernels(row.plan, recipe, cuda::SharedMemory::kMedium),
        large)
        << Label(row);
    const cuda::KernelChoice small =
        cuda::ChooseKernels(row.plan, recipe, cuda::SharedMemory::kSmall);
    const bool frame = cuda::Name(large.encode).starts_with("Frame");
    if (!frame || row.dtype != DType::kF32 || !Rotates(row)) {
      EXPECT_EQ(small, large) << Label(row);
      return;
    }
    ++moved;
    EXPECT_EQ(small.encode, EncodeKernel::kSpans) << Label(row);
    EXPECT_EQ(small.dbias, OptionsOf(row.plan).dbias ? DbiasKernel::kChunks
                                                     : DbiasKernel::kNone)
        << Label(row);
  });
  EXPECT_GT(moved, 100u);
}

}  // namespace
}  // namespace quantd
