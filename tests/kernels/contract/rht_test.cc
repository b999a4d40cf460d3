// Rotations and maxima: every dimension, mask and domain, and groups.
#include <gtest/gtest.h>

#include "fmt/format.h"
#include "quantd/plan.h"
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

class RhtContract : public ContractTest {};

TEST_F(RhtContract, ManyMasks) {
  const Size size{16, 48};
  const Bytes& x = SuiteTensor(Element::kBF16, 16 * 48, Flavor::kSpread);
  for (uint64_t i = 0; i < 528; ++i) {
    if (TooMany()) return;
    const auto mask = static_cast<uint16_t>(i < 16 ? uint64_t{1} << i : Mix(i));
    const std::string what = fmt::format("mask {:04X}", mask);
    ApplyRht(what, Element::kBF16, Element::kF32, size, mask, i % 2, x);
    oracle::QuantizeSpec spec;
    spec.element = Element::kBF16;
    spec.rows = 16;
    spec.cols = 48;
    spec.columnwise = spec.rotate_rows = spec.rotate_columns = true;
    spec.mask = mask;
    Quantize(what, spec, x);
    Combination();
  }
}

TEST_F(RhtContract, AmaxOfEveryDimensionAndDomain) {
  constexpr int64_t kSizes[][2] = {{1, 128},  {33, 256},  {130, 128},
                                   {0, 128},  {257, 128}, {5, 0},
                                   {16, 384}, {7, 40},    {133, 35}};
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
              const int bits = static_cast<int>(Draw(turn, 1, 15)) + 1;
              // Rows are rotated only in whole blocks.
              const bool whole = spec.cols % dimension == 0;
              const AmaxFlags flags{(bits & 1) != 0 || !whole,
                                    (bits & 2) != 0 && whole, (bits & 4) != 0,
                                    (bits & 8) != 0};
              const Flavor flavor = kFlavors[turn % std::size(kFlavors)];
              const int64_t count = spec.rows * spec.cols;
              const Bytes& x = SuiteTensor(e, count, flavor);
              RhtAmax(fmt::format(
                          "amax {} {}x{} rht {}{}{} {} flags {} turn {}",
                          Name(DTypeOf(e)), spec.rows, spec.cols, dimension,
                          per_line ? " per line" : "",
                          grouped ? " grouped" : "", Name(flavor), bits, turn),
                      spec, flags, x);
            }
          }
          Combination();
        }
      }
    }
  }
}

TEST_F(RhtContract, ApplyOfEveryDimension) {
  constexpr Size kShapes[] = {{3, 128}, {130, 256}, {257, 128},
                              {1, 640}, {0, 128},   {17, 384}};
  size_t turn = 0;
  for (int dimension : kRhtDimensions) {
    for (Element e : kElements) {
      for (Element out : kElements) {
        for (bool inverse : {false, true}) {
          for (const Size& size : kShapes) {
            for (Flavor f : FlavorsFor(size, ++turn)) {
              if (TooMany()) return;
              const oracle::Mask mask = MaskFor(dimension, turn);
              const Bytes& x = SuiteTensor(e, size.rows * size.cols, f);
              ApplyRht(
                  fmt::format("rotate {} {} to {} {}x{}{} {}", dimension,
                              Name(DTypeOf(e)), Name(DTypeOf(out)), size.rows,
                              size.cols, inverse ? " back" : "", Name(f)),
                  e, out, size, mask, inverse, x, dimension);
            }
          }
          Combination();
        }
      }
    }
  }
}

}  // namespace
}  // namespace quantd
