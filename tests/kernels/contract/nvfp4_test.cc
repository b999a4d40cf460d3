// NVFP4: tensors of every flavor, every kind of given amax, and decoding of
// arbitrary codes and scales.
#include <gtest/gtest.h>

#include <limits>

#include "fmt/format.h"
#include "tests/kernels/contract/contract.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;
using oracle::Policy;

constexpr float kMax = std::numeric_limits<float>::max();

// Values for given amaxes: ordinary and exact ones, zero, and values near every
// branch.
constexpr float kGiven[] = {3.0f,     0.0f,    448.0f, 1e-37f, 3e38f,
                            7.9e-36f, 7.5e35f, -0.0f,  1e-45f, kMax,
                            7.7e35f,  0.001f,  1.0f};
constexpr float Given(size_t turn) { return kGiven[turn % std::size(kGiven)]; }

enum class Amax { kComputed, kRow, kColumn, kBoth };

struct Directions {
  bool rowwise, columnwise, rotate_rows, rotate_columns;
};
constexpr Directions kDirections[] = {
    {true, false, false, false}, {true, false, true, false},
    {false, true, false, false}, {false, true, false, true},
    {true, true, false, false},  {true, true, true, false},
    {true, true, false, true},   {true, true, true, true}};

std::string Describe(const oracle::QuantizeSpec& s, const Shape& shape,
                     Flavor f) {
  const auto amax = [](const std::vector<float>& a) {
    return a.empty() ? std::string("computed") : fmt::to_string(a[0]);
  };
  return fmt::format(
      "{} {} {}{}{}{} mask {:04X} {} amax {}/{} {}", Name(DTypeOf(s.element)),
      ToString(shape), s.rowwise ? "R" : "", s.rotate_rows ? "h" : "",
      s.columnwise ? "C" : "", s.rotate_columns ? "h" : "", s.mask.words[0],
      Name(f), amax(s.row_amax), amax(s.column_amax),
      s.policy == Policy::kIgnore      ? "ignore"
      : s.policy == Policy::kPropagate ? "propagate"
                                       : "reject");
}

class Nvfp4Contract : public ContractTest {
 protected:
  void Run(oracle::QuantizeSpec spec, const std::vector<Shape>& shapes,
           Amax amax, size_t turn) {
    for (const Shape& shape : shapes) {
      ++turn;
      for (Flavor f : FlavorsFor(shape, turn)) {
        if (TooMany()) return;
        spec.rows = shape.rows;
        spec.cols = shape.cols;
        spec.mask = SuiteMask(turn);
        spec.row_amax.clear();
        spec.column_amax.clear();
        if (amax == Amax::kRow || amax == Amax::kBoth) {
          spec.row_amax = {Given(turn)};
        }
        if (amax == Amax::kColumn || amax == Amax::kBoth) {
          spec.column_amax = {Given(turn + 1)};
        }
        // The amax of a copy that is not made is used for the other copy or
        // refused.
        if (!spec.rowwise && (spec.rotate_columns || amax == Amax::kBoth)) {
          spec.row_amax.clear();
        }
        if (!spec.columnwise && (spec.rotate_rows || amax == Amax::kBoth)) {
          spec.column_amax.clear();
        }
        const int64_t count = shape.rows * shape.cols;
        const Bytes& x = SuiteTensor(spec.element, count, f);
        Quantize(Describe(spec, shape, f), spec, x, &shape);
      }
    }
  }
};

TEST_F(Nvfp4Contract, EveryCombination) {
  size_t turn = 0;
  for (Element e : kElements) {
    for (const Directions& d : kDirections) {
      for (Amax amax :
           {Amax::kComputed, Amax::kRow, Amax::kColumn, Amax::kBoth}) {
        for (Policy policy : kPolicies) {
          if (TooMany()) return;
          oracle::QuantizeSpec spec;
          spec.element = e;
          spec.policy = policy;
          spec.rowwise = d.rowwise;
          spec.columnwise = d.columnwise;
          spec.rotate_rows = d.rotate_rows;
          spec.rotate_columns = d.rotate_columns;
          Run(spec, WholeShapes(), amax, ++turn);
          if (!d.rowwise) Run(spec, RaggedShapes(), amax, turn);
          Combination();
        }
      }
    }
  }
}

// The rotation of a copy that is not made changes nothing, not even the copies
// that an amax is used for.
TEST_F(Nvfp4Contract, RotationOfAnAbsentCopyChangesNothing) {
  for (bool rowwise : {true, false}) {
    oracle::QuantizeSpec spec;
    spec.rowwise = rowwise;
    spec.columnwise = !rowwise;
    spec.rotate_rows = !rowwise;
    spec.rotate_columns = rowwise;
    Run(spec, WholeShapes(), rowwise ? Amax::kColumn : Amax::kRow, 1);
    Combination();
  }
}

// Arbitrary codes and scales. Padding holds arbitrary bytes, too, which must
// not matter.
TEST_F(Nvfp4Contract, DecodesAnyBytes) {
  constexpr float kAmaxes[] = {1.0f,
                               3.0f,
                               0.0f,
                               1e-37f,
                               1e-45f,
                               7.8e-36f,
                               7.9e-36f,
                               7.5e35f,
                               7.7e35f,
                               3e38f,
                               kMax,
                               std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN(),
                               100.25f,
                               2688.0f,
                               60000.0f};
  size_t turn = 0;
  for (Element output : kElements) {
    for (bool columnwise : {false, true}) {
      for (bool inverse : {false, true}) {
        for (float amax : kAmaxes) {
          for (const auto* shapes : {&WholeShapes(), &RaggedShapes()}) {
            if (!columnwise && shapes == &RaggedShapes()) continue;
            for (const Shape& shape : *shapes) {
              if (TooMany()) return;
              const uint16_t mask = SuiteMask(++turn);
              const int64_t lines = columnwise ? shape.cols : shape.rows;
              const int64_t blocks =
                  ((columnwise ? shape.rows : shape.cols) + 15) / 16;
              const int64_t scales =
                  lines == 0 || blocks == 0
                      ? 0
                      : (lines + 127) / 128 * 128 * ((blocks + 3) / 4 * 4);
              const oracle::Copy copy{RandomBytes(lines * blocks * 8, turn),
                                      RandomBytes(scales, turn + 1),
                                      {amax}};
              const oracle::DequantizeSpec spec{
                  shape.rows, shape.cols, columnwise, inverse, mask, output};
              Dequantize(
                  fmt::format("dequantize {} {} {}{} mask {:04X} amax {}",
                              Name(DTypeOf(output)), ToString(shape),
                              columnwise ? "C" : "R", inverse ? " inverse" : "",
                              mask, amax),
                  spec, copy, &shape);
            }
          }
          Combination();
        }
      }
    }
  }
}

// Codes and scales from quantization, and every scale with every code.
TEST_F(Nvfp4Contract, DecodesQuantizedTensors) {
  const Shape shape{{257, 80}, 1, 257, 80};
  for (Element output : kElements) {
    for (Flavor f : kFlavors) {
      for (bool columnwise : {false, true}) {
        for (bool rotated : {false, true}) {
          oracle::QuantizeSpec from;
          from.rows = shape.rows;
          from.cols = shape.cols;
          from.rowwise = !columnwise;
          from.columnwise = columnwise;
          from.rotate_rows = from.rotate_columns = rotated;
          from.mask = 0xD7E8;
          const auto q =
              oracle::Quantize(from, SuiteTensor(Element::kF32, 257 * 80, f));
          const oracle::Copy& copy = columnwise ? q.columnwise : q.rowwise;
          const oracle::DequantizeSpec spec{257,     80,     columnwise,
                                            rotated, 0xD7E8, output};
          Dequantize(fmt::format("round trip {} {}", Name(f), columnwise), spec,
                     copy, &shape);
          Combination();
        }
      }
    }
  }
}

}  // namespace
}  // namespace quantd
