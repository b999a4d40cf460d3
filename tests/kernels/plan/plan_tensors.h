// Formats a plan's tensors as text, and checks a copy in the plans of every
// Make function.
#ifndef QUANTD_TESTS_KERNELS_PLAN_PLAN_TENSORS_H_
#define QUANTD_TESTS_KERNELS_PLAN_PLAN_TENSORS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tests/kernels/plan/plan_request.h"
#include "tests/testing/matchers.h"

namespace quantd {

// The text of a tensor: "kind dtype 2x3", then " swizzled" for that layout,
// then the groups' offsets.
inline std::string Text(const TensorSpec& s) {
  std::string text = fmt::format("{} {} {}", Name(s.kind), Name(s.dtype),
                                 fmt::join(s.shape, "x"));
  if (s.layout != Layout::kLinear) text += fmt::format(" {}", Name(s.layout));
  if (!s.group_offsets.empty()) {
    text += fmt::format(" ({})", fmt::join(s.group_offsets, " "));
  }
  return text;
}

// Expects these tensors in order. Each starts at the next multiple of 64 and
// has the size of its shape.
inline void ExpectTensors(const std::vector<TensorSpec>& specs, size_t bytes,
                          const std::vector<std::string>& expected) {
  std::vector<std::string> texts;
  size_t end = 0;
  for (const TensorSpec& s : specs) {
    texts.push_back(Text(s));
    EXPECT_EQ(s.offset, (end + 63) / 64 * 64) << texts.back();
    size_t size = SizeOf(s.dtype);
    for (int64_t d : s.shape) size *= static_cast<size_t>(d);
    EXPECT_EQ(s.size, size) << texts.back();
    if (!s.group_offsets.empty()) {
      EXPECT_EQ(s.group_offsets.front(), 0u);
      EXPECT_EQ(s.group_offsets.back(), s.size);
    }
    end = s.offset + s.size;
  }
  EXPECT_EQ(texts, expected);
  EXPECT_EQ(bytes, end);
}

// Selects from `outputs` the inputs of a Dequantize of `usage`: the parts of
// that copy, with the amax only for NVFP4.
inline std::vector<std::string> CopyOf(const std::vector<std::string>& outputs,
                                       Usage usage, bool with_amax) {
  std::vector<std::string> copy;
  for (const std::string& text : outputs) {
    if (!text.starts_with(Name(usage))) continue;
    if (!with_amax && text.find("_amax") != std::string::npos) continue;
    copy.push_back(text);
  }
  return copy;
}

struct Case {
  Format format;
  std::vector<int64_t> shape;
  std::vector<std::string> outputs;
  std::function<void(QuantizeOptions&)> edit = {};
};

inline void Check(const Case& c) {
  PlanRequest r(c.format);
  r.tensor = Tensor(c.shape);
  if (c.edit) c.edit(r.quantize);
  SCOPED_TRACE(fmt::format("{} {}", Name(c.format), fmt::join(c.shape, "x")));
  const auto plan = Make(kQuantize, r);
  ASSERT_THAT(plan, IsOk());
  ExpectTensors(plan->outputs(), plan->output_bytes(), c.outputs);
  const std::string input =
      fmt::format("input bf16 {}x{}", plan->rows(), plan->cols());
  ExpectTensors(plan->inputs(), plan->input_bytes(), {input});
  for (const Usage usage : {Usage::kRowwise, Usage::kColumnwise}) {
    const bool columnwise = usage == Usage::kColumnwise;
    r.dequantize.usage = usage;
    r.dequantize.inverse_rht =
        columnwise ? r.quantize.rht.columnwise : r.quantize.rht.rowwise;
    r.dequantize.rht_dimension = r.quantize.rht.dimension;
    r.dequantize.form = r.quantize.form;
    r.dequantize.splits = r.quantize.splits;
    const auto back = Make(kDequantize, r);
    ASSERT_THAT(back, IsOk());
    const bool nvfp4 =
        c.format == Format::kNvfp4 || c.format == Format::kNvfp4Square;
    ExpectTensors(back->inputs(), back->input_bytes(),
                  CopyOf(c.outputs, usage, nvfp4));
    ASSERT_EQ(back->outputs().size(), 1u);
    EXPECT_THAT(Text(back->outputs()[0]),
                testing::StartsWith(fmt::format("dequantized bf16 {}x{}",
                                                plan->rows(), plan->cols())));
  }
}

}  // namespace quantd

#endif  // QUANTD_TESTS_KERNELS_PLAN_PLAN_TENSORS_H_
