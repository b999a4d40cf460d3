// Every device gives the oracle's bytes, for every combination of options.
#include "tests/kernels/contract/contract.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "fmt/format.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;
using oracle::Policy;

constexpr float kMax = std::numeric_limits<float>::max();

// Amaxes to give: ordinary, exact, zero, and around every branch.
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

class QuantizeContract : public ContractTest {
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
        // Of a copy that is not made it serves the other one or is refused.
        if (!spec.rowwise && (spec.rotate_columns || amax == Amax::kBoth)) {
          spec.row_amax.clear();
        }
        if (!spec.columnwise && (spec.rotate_rows || amax == Amax::kBoth)) {
          spec.column_amax.clear();
        }
        const int64_t count = shape.rows * shape.cols;
        const Bytes& x = SuiteTensor(spec.element, count, f);
        Expect(Describe(spec, shape, f), oracle::Quantize(spec, x),
               device().Quantize(spec, x, &shape), count);
      }
    }
  }
};

TEST_P(QuantizeContract, EveryCombination) {
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

// A rotation of a copy nobody asked for changes nothing, also not which amax
// serves which copy.
TEST_P(QuantizeContract, RotationOfAnAbsentCopy) {
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

class DequantizeContract : public ContractTest {};

// Codes and scales of any kind, padding included, which must not matter.
TEST_P(DequantizeContract, AnyBytes) {
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
              Expect(fmt::format("dequantize {} {} {}{} mask {:04X} amax {}",
                                 Name(DTypeOf(output)), ToString(shape),
                                 columnwise ? "C" : "R",
                                 inverse ? " inverse" : "", mask, amax),
                     output, oracle::Dequantize(spec, copy),
                     device().Dequantize(spec, copy, &shape));
            }
          }
          Combination();
        }
      }
    }
  }
}

// What quantization wrote, and each scale with each code.
TEST_P(DequantizeContract, QuantizedTensors) {
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
          Expect(fmt::format("round trip {} {}", Name(f), columnwise), output,
                 oracle::Dequantize(spec, copy),
                 device().Dequantize(spec, copy, &shape));
          Combination();
        }
      }
    }
  }
}

class RhtContract : public ContractTest {};

TEST_P(RhtContract, AmaxEveryCombination) {
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
              const auto got = device().RhtAmax(
                  {e, shape.rows, shape.cols, mask, policy}, flags, x, &shape);
              const std::string what = fmt::format(
                  "amax {} {} flags {} mask {:04X} {}", Name(DTypeOf(e)),
                  ToString(shape), bits, mask, Name(f));
              const auto want =
                  oracle::RhtAmax({e, shape.rows, shape.cols, mask, policy}, x);
              Expect(what, want, flags, got, count);
              if (got.ok() && !got->rejected) ExpectSeen(what, e, x);
            }
          }
        }
        Combination();
      }
    }
  }
}

TEST_P(RhtContract, ApplyEveryCombination) {
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
            const std::string what = fmt::format(
                "rotate {} to {} {}{} mask {:04X} {}", Name(DTypeOf(e)),
                Name(DTypeOf(out)), ToString(shape), inverse ? " back" : "",
                mask, Name(f));
            const auto got =
                device().ApplyRht(e, output, shape, mask, inverse, x);
            Expect(what, out, oracle::ApplyRht(e, out, mask, inverse, x), got);
            if (got.ok()) ExpectSeen(what, e, x);
          }
        }
        Combination();
      }
    }
  }
}

TEST_P(RhtContract, ManyMasks) {
  const Shape shape{{16, 48}, 1, 16, 48};
  const Bytes& x = SuiteTensor(Element::kBF16, 16 * 48, Flavor::kSpread);
  for (uint64_t i = 0; i < 528; ++i) {
    if (TooMany()) return;
    const auto mask = static_cast<uint16_t>(i < 16 ? uint64_t{1} << i : Mix(i));
    Expect(fmt::format("mask {:04X}", mask), Element::kF32,
           oracle::ApplyRht(Element::kBF16, Element::kF32, mask, i % 2, x),
           device().ApplyRht(Element::kBF16, Element::kF32, shape, mask, i % 2,
                             x));
    oracle::QuantizeSpec spec;
    spec.element = Element::kBF16;
    spec.rows = 16;
    spec.cols = 48;
    spec.columnwise = spec.rotate_rows = spec.rotate_columns = true;
    spec.mask = mask;
    Expect(fmt::format("mask {:04X}", mask), oracle::Quantize(spec, x),
           device().Quantize(spec, x), 16 * 48);
    Combination();
  }
}

std::string TargetName(const testing::TestParamInfo<Target>& info) {
  return Identifier(info.param);
}
#define QUANTD_ON_EVERY_DEVICE(suite) \
  INSTANTIATE_TEST_SUITE_P(, suite, testing::ValuesIn(Targets()), TargetName)
QUANTD_ON_EVERY_DEVICE(QuantizeContract);
QUANTD_ON_EVERY_DEVICE(DequantizeContract);
QUANTD_ON_EVERY_DEVICE(RhtContract);

}  // namespace
}  // namespace quantd
