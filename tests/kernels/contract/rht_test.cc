// Rotations of every dimension, and maxima of every domain and of groups:
// the oracle's bytes on every device.
#include <gtest/gtest.h>

#include "fmt/format.h"
#include "kernels/plan/plan.h"
#include "tests/kernels/contract/contract.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;
using oracle::Policy;

oracle::Mask MaskFor(int dimension, size_t turn) {
  oracle::Mask mask(Mix(turn), Mix(turn + 1));
  if (turn % 5 == 0) mask = oracle::Repeat(0xD7E8);
  if (dimension < 128) mask.words[1] = 0;
  if (dimension < 64) mask.words[0] &= (uint64_t{1} << dimension) - 1;
  return mask;
}

std::vector<int64_t> SplitsFor(int64_t rows, size_t turn) {
  std::vector<int64_t> splits = {0};
  for (size_t i = 0; rows > 0; ++i) {
    const auto n = static_cast<int64_t>(Mix(turn * 77 + i) % 70);
    splits.push_back(std::min(n, rows));
    rows -= splits.back();
  }
  splits.push_back(0);
  return splits;
}

class WideRhtContract : public ContractTest {};

TEST_P(WideRhtContract, Amax) {
  constexpr int64_t kSizes[][2] = {{1, 128},   {33, 256}, {130, 128}, {0, 128},
                                   {257, 128}, {5, 0},    {16, 384}};
  size_t turn = 0;
  for (int dimension : kRhtDimensions) {
    for (Element e : kElements) {
      for (bool per_line : {false, true}) {
        for (bool grouped : {false, true}) {
          for (const auto& size : kSizes) {
            for (Policy policy : kPolicies) {
              if (TooMany()) return;
              ++turn;
              oracle::AmaxSpec spec;
              spec.element = e;
              spec.rows = size[0];
              spec.cols = size[1];
              spec.dimension = dimension;
              spec.mask = MaskFor(dimension, turn);
              spec.policy = policy;
              spec.per_line = per_line;
              if (grouped) spec.splits = SplitsFor(spec.rows, turn);
              const int bits = static_cast<int>(turn % 15) + 1;
              const AmaxFlags flags{(bits & 1) != 0, (bits & 2) != 0,
                                    (bits & 4) != 0, (bits & 8) != 0};
              const Flavor flavor = kFlavors[turn % std::size(kFlavors)];
              const int64_t count = spec.rows * spec.cols;
              const Bytes& x = SuiteTensor(e, count, flavor);
              Expect(fmt::format("amax {} {}x{} rht {}{}{} {} flags {} turn {}",
                                 Name(DTypeOf(e)), spec.rows, spec.cols,
                                 dimension, per_line ? " per line" : "",
                                 grouped ? " grouped" : "", Name(flavor), bits,
                                 turn),
                     oracle::RhtAmax(spec, x), flags,
                     device().RhtAmax(spec, flags, x), count);
            }
          }
          Combination();
        }
      }
    }
  }
}

TEST_P(WideRhtContract, Apply) {
  const Shape shapes[] = {{{3, 128}, 1, 3, 128},
                          {{130, 256}, 1, 130, 256},
                          {{257, 128}, 1, 257, 128},
                          {{1, 640}, 1, 1, 640}};
  size_t turn = 0;
  for (int dimension : kRhtDimensions) {
    for (Element e : kElements) {
      for (Element out : kElements) {
        for (bool inverse : {false, true}) {
          for (const Shape& shape : shapes) {
            for (Flavor f : FlavorsFor(shape, ++turn)) {
              if (TooMany()) return;
              const oracle::Mask mask = MaskFor(dimension, turn);
              const Bytes& x = SuiteTensor(e, shape.rows * shape.cols, f);
              Expect(
                  fmt::format("rotate {} {} to {} {}{} {}", dimension,
                              Name(DTypeOf(e)), Name(DTypeOf(out)),
                              ToString(shape), inverse ? " back" : "", Name(f)),
                  out, oracle::ApplyRht(e, out, mask, inverse, x, dimension),
                  device().ApplyRht(e, out, shape, mask, inverse, x,
                                    dimension));
            }
          }
          Combination();
        }
      }
    }
  }
}

std::string TargetName(const testing::TestParamInfo<Target>& info) {
  return Identifier(info.param);
}
INSTANTIATE_TEST_SUITE_P(, WideRhtContract, testing::ValuesIn(Targets()),
                         TargetName);

}  // namespace
}  // namespace quantd
