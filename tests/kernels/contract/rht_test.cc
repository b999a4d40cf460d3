// Rotations and maxima: every dimension, mask and domain, and groups.
#include <gtest/gtest.h>

#include <optional>

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

class RhtContract : public ContractTest {};

TEST_F(RhtContract, AmaxEveryCombination) {
  size_t turn = 0;
  for (Element e : kElements) {
    for (Policy policy : kPolicies) {
      for (int bits = 1; bits < 16; ++bits) {
        const AmaxFlags flags{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0,
                              (bits & 8) != 0};
        for (const auto* shapes : {&WholeShapes(), &RaggedShapes()}) {
          if (flags.row_rotated && shapes == &RaggedShapes()) continue;
          for (const Shape& shape : *shapes) {
            ++turn;
            for (Flavor f : FlavorsFor(shape, turn)) {
              if (TooMany()) return;
              const int64_t count = shape.rows * shape.cols;
              const Bytes& x = SuiteTensor(e, count, f);
              const uint16_t mask = SuiteMask(turn);
              RhtAmax(fmt::format("amax {} {} flags {} mask {:04X} {}",
                                  Name(DTypeOf(e)), ToString(shape), bits, mask,
                                  Name(f)),
                      {e, shape.rows, shape.cols, mask, policy}, flags, x,
                      &shape);
            }
          }
        }
        Combination();
      }
    }
  }
}

TEST_F(RhtContract, ApplyEveryCombination) {
  size_t turn = 0;
  constexpr std::optional<Element> kOutputs[] = {std::nullopt, Element::kF32,
                                                 Element::kF16, Element::kBF16};
  for (Element e : kElements) {
    for (std::optional<Element> output : kOutputs) {
      for (bool inverse : {false, true}) {
        for (const Shape& shape : WholeShapes()) {
          ++turn;
          for (Flavor f : FlavorsFor(shape, turn)) {
            if (TooMany()) return;
            const Bytes& x = SuiteTensor(e, shape.rows * shape.cols, f);
            const uint16_t mask = SuiteMask(turn);
            const Element out = output.value_or(e);
            ApplyRht(fmt::format("rotate {} to {} {}{} mask {:04X} {}",
                                 Name(DTypeOf(e)), Name(DTypeOf(out)),
                                 ToString(shape), inverse ? " back" : "", mask,
                                 Name(f)),
                     e, output, shape, mask, inverse, x);
          }
        }
        Combination();
      }
    }
  }
}

TEST_F(RhtContract, ManyMasks) {
  const Shape shape{{16, 48}, 1, 16, 48};
  const Bytes& x = SuiteTensor(Element::kBF16, 16 * 48, Flavor::kSpread);
  for (uint64_t i = 0; i < 528; ++i) {
    if (TooMany()) return;
    const auto mask = static_cast<uint16_t>(i < 16 ? uint64_t{1} << i : Mix(i));
    const std::string what = fmt::format("mask {:04X}", mask);
    ApplyRht(what, Element::kBF16, Element::kF32, shape, mask, i % 2, x);
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
              ApplyRht(
                  fmt::format("rotate {} {} to {} {}{} {}", dimension,
                              Name(DTypeOf(e)), Name(DTypeOf(out)),
                              ToString(shape), inverse ? " back" : "", Name(f)),
                  e, out, shape, mask, inverse, x, dimension);
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
