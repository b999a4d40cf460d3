// Numbers with which an attacker would try to cause overflows.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tests/kernels/plan/plan_request.h"

namespace quantd {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min();

absl::Status Split(std::vector<int64_t> shape, std::vector<int64_t> splits) {
  PlanRequest r;
  r.tensor = Tensor(std::move(shape));
  r.quantize.splits = r.dequantize.splits = r.amax.splits = std::move(splits);
  const absl::Status status = Make(kQuantize, r).status();
  EXPECT_EQ(Make(kDequantize, r).status(), status);
  EXPECT_EQ(Make(kAmax, r).status(), status);
  return status;
}

TEST(AttackTest, SumsOfGroups) {
  const std::string sum = "sizes >= 0 whose sum is 32 rows";
  ExpectRefused(Split({32, 64}, {kLargest, 1}), "splits", sum, "a larger sum");
  ExpectRefused(Split({32, 64}, {32, kLargest}), "splits", sum, "a larger sum");
  // 2^63 + 2^63 + 32 wraps to 32.
  ExpectRefused(Split({32, 64}, {kSmallest, kSmallest, 32}), "splits", sum,
                "-9223372036854775808");
  ExpectRefused(Split({32, 64}, {33, -1}), "splits", sum, "a larger sum");
  ExpectRefused(Split({32, 64}, {-1, 33}), "splits", sum, "-1");
  ExpectRefused(Split({32, 64}, {16, 15}), "splits",
                "sizes whose sum is 32 rows", "31");
  ExpectRefused(Split({0, 64}, {1}), "splits", "sizes >= 0 whose sum is 0 rows",
                "a larger sum");
  EXPECT_THAT(Split({0, 64}, {0, 0}), IsOk());
  EXPECT_THAT(Split({32, 64}, {0, 32, 0}), IsOk());
}

TEST(AttackTest, NumbersOfGroups) {
  ExpectRefused(Split({32, 64}, {}), "splits", "1 to 16384 groups", "0");
  ExpectRefused(Split({0, 64}, std::vector<int64_t>(16385)), "splits",
                "1 to 16384 groups", "16385");
  EXPECT_THAT(Split({0, 64}, std::vector<int64_t>(16384)), IsOk());
  // dbias of empty groups alone would have more than 2^48 elements.
  ExpectRefused(Split({0, int64_t{1} << 35}, std::vector<int64_t>(16384)),
                "splits", "groups x K at most 281474976710656", "16384 groups");
  EXPECT_THAT(Split({0, int64_t{1} << 34}, std::vector<int64_t>(16384)),
              IsOk());
}

// Compares every size of the largest tensors with arithmetic in 128 bits.
void ExpectExact(const std::vector<TensorSpec>& specs, size_t total) {
  unsigned __int128 end = 0;
  for (const TensorSpec& spec : specs) {
    unsigned __int128 size = SizeOf(spec.dtype);
    for (int64_t d : spec.shape) {
      ASSERT_GE(d, 0);
      size *= static_cast<uint64_t>(d);
    }
    EXPECT_TRUE(size == spec.size) << Name(spec.kind);
    EXPECT_TRUE(spec.offset >= end) << Name(spec.kind);
    end = spec.offset + size;
    if (spec.group_offsets.empty()) continue;
    EXPECT_EQ(spec.group_offsets.back(), spec.size);
    for (size_t g = 1; g < spec.group_offsets.size(); ++g) {
      ASSERT_LE(spec.group_offsets[g - 1], spec.group_offsets[g]);
    }
  }
  EXPECT_TRUE(end == total);
  EXPECT_LT(total, size_t{1} << 60);
}

TEST(AttackTest, TheLargestTensorsDoNotWrap) {
  const int64_t most = int64_t{1} << 48;
  const std::vector<int64_t> shapes[] = {
      {most, 1},
      {1, most},
      {int64_t{1} << 24, int64_t{1} << 24},
      {0, most},
      {most, 0},
      {int64_t{1} << 43, 32},
      {32, int64_t{1} << 43},
      {(int64_t{1} << 33) - 1, (1 << 15) - 1}};
  for (const FormatSpec& f : kFormats) {
    for (const auto& shape : shapes) {
      for (const bool grouped : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} {}", f.name, fmt::join(shape, "x"),
                                 grouped ? "grouped" : ""));
        PlanRequest r(f.format);
        r.tensor = Tensor(shape);
        r.tensor.dtype = DType::kF32;
        // Rowwise copies need whole blocks.
        if (f.block > 0 && f.block < 128 && shape[1] % 32 != 0) {
          r.quantize.usage = Usage::kColumnwise;
        }
        r.quantize.dbias = true;
        r.quantize.form.row_scaled = f.format == Format::kNvfp4;
        if (grouped) {
          // Uses the most groups that K allows, up to 1000.
          const int64_t n =
              std::min<int64_t>(1000, most / std::max<int64_t>(1, shape[1]));
          std::vector<int64_t> splits(n, 0);
          splits[0] = shape[0] / 2;
          splits[n - 1] += shape[0] - shape[0] / 2;
          r.quantize.splits = r.dequantize.splits = splits;
        }
        const auto plan = Make(kQuantize, r);
        ASSERT_THAT(plan, IsOk());
        ExpectExact(plan->outputs(), plan->output_bytes());
        ExpectExact(plan->inputs(), plan->input_bytes());
        EXPECT_LT(plan->scratch_bytes(), size_t{1} << 60);
        r.dequantize.usage = Usage::kColumnwise;
        r.dequantize.output = DType::kF32;
        r.dequantize.form = r.quantize.form;
        const auto back = Make(kDequantize, r);
        ASSERT_THAT(back, IsOk());
        ExpectExact(back->inputs(), back->input_bytes());
        ExpectExact(back->outputs(), back->output_bytes());
      }
    }
  }
}

TEST(AttackTest, OneElementMoreThanTheLargest) {
  for (const FormatSpec& f : kFormats) {
    PlanRequest r(f.format);
    r.tensor = Tensor({(int64_t{1} << 48) + 1, 1});
    ExpectRefused(Make(kQuantize, r).status(), "tensor.shape",
                  "at most 281474976710656 elements", "[281474976710657, 1]");
  }
}

}  // namespace
}  // namespace quantd
