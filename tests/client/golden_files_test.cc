// Tests that files of older versions of quantctl are read correctly and contain
// the bytes that quantizing gives today. They cover every format of 0.1, and
// the additions of 0.2.
#include <cstring>

#include "client/files/quantized_file.h"
#include "fmt/format.h"
#include "kernels/device/devices.h"
#include "proto/messages.h"
#include "tests/testing/device.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

constexpr int64_t kRows = 20;
constexpr int64_t kColumns = 32;

// Returns the tensor from which each file was quantized.
oracle::Bytes GoldenInput() {
  oracle::Bytes input(kRows * kColumns * sizeof(float));
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    const float x = static_cast<float>(i * 37 % 101 - 50) / 8;
    std::memcpy(input.data() + i * sizeof x, &x, sizeof x);
  }
  return input;
}

// Returns all options of a plan as text.
std::string OptionsText(const Plan& plan) {
  return wire::ToProto(std::get<QuantizeOptions>(plan.options())).DebugString();
}

struct GoldenFile {
  std::string name;
  QuantizeOptions options;
};

// Lists the files and the options with which quantctl wrote them.
std::vector<GoldenFile> GoldenFiles() {
  std::vector<GoldenFile> files;
  std::string_view version = "0_1";
  const auto add = [&](std::string_view name, Format format, auto change) {
    GoldenFile file{fmt::format("files_{}/{}", version, name), {}};
    file.options.format = format;
    file.options.usage = Usage::kBoth;
    change(file.options);
    files.push_back(std::move(file));
  };
  for (const FormatSpec& f : kFormats) {
    if (f.scaling != Scaling::kChannel) add(f.name, f.format, [](auto&) {});
  }
  add("nvfp4_rotated", Format::kNvfp4, [](auto& o) {
    o.rht = {true, true, 32, RandomSignMask(3, 32)};
    o.nvfp4.amax_estimation_scale = 2;
    o.form.scale_layout = Layout::kSwizzled;
    o.non_finite = NonFinite::kPropagate;
  });
  add("nvfp4_2d_four_over_six", Format::kNvfp4Square, [](auto& o) {
    o.form.compact_scales = o.form.scale_256 = true;
    o.nvfp4.four_over_six = FourOverSix::kMse;
    o.nvfp4.fast_error = o.want_amax = true;
  });
  add("nvfp4_row_scaled", Format::kNvfp4, [](auto& o) {
    o.usage = Usage::kRowwise;
    o.form.row_scaled = true;
  });
  add("mxfp4_stochastic", Format::kMxfp4, [](auto& o) {
    o.usage = Usage::kRowwise;
    o.rounding = Rounding::kStochastic;
    o.stochastic = {~uint64_t{0}, 9};
    o.shard = {64, 32, 512};
    o.mx.scale_rule = ScaleRule::kEven;
  });
  add("fp8_e4m3_groups", Format::kFp8E4M3, [](auto& o) {
    o.splits = {7, 0, 13};
    o.fp8.epsilon = 0.5f;
    o.fp8.power_of_two = true;
    o.dbias = true;
    o.dbias_dtype = DType::kF32;
  });

  version = "0_2";
  add("fp8_channel_e4m3", Format::kFp8ChannelE4M3, [](auto&) {});
  add("nvfp4_profile", Format::kNvfp4, [](auto& o) {
    o.usage = Usage::kRowwise;
    o.profile = Profile::kComfy0240;
    o.form.scale_layout = Layout::kSwizzled;
  });
  return files;
}

TEST(GoldenFiles, AreReadCorrectly) {
  auto backend = OpenBackend("cpu", {});
  ASSERT_THAT(backend, IsOk());
  for (const GoldenFile& golden : GoldenFiles()) {
    SCOPED_TRACE(golden.name);
    const auto file = QuantizedFile::Open(
        fmt::format("{}/{}.safetensors", QUANTD_GOLDEN_FILES, golden.name));
    ASSERT_THAT(file, IsOk());
    ASSERT_EQ(file->names(), std::vector<std::string>{"x"});
    const auto loaded = file->Load("x");
    ASSERT_THAT(loaded, IsOk());
    EXPECT_EQ(loaded->dtype(), DType::kF32);
    EXPECT_EQ(loaded->shape(), (std::vector<int64_t>{kRows, kColumns}));
    const TensorDesc desc = {DType::kF32, {kRows, kColumns}, -1};
    const auto plan = MakeQuantizePlan(desc, golden.options);
    ASSERT_THAT(plan, IsOk());
    const auto read = MakeQuantizePlan(desc, loaded->options());
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(OptionsText(*read), OptionsText(*plan));
    const auto reply = RunPlan(**backend, *plan, {GoldenInput()});
    ASSERT_THAT(reply, IsOk());
    ASSERT_EQ(loaded->parts().size(), plan->outputs().size());
    for (const TensorSpec& spec : plan->outputs()) {
      ASSERT_NE(loaded->part(spec.kind), nullptr) << Name(spec.kind);
      EXPECT_EQ(loaded->part(spec.kind)->shape, spec.shape);
      EXPECT_EQ(loaded->part(spec.kind)->group_offsets, spec.group_offsets);
      const auto kept = loaded->bytes(spec.kind);
      ASSERT_EQ(kept.size(), spec.size);
      EXPECT_EQ(std::memcmp(kept.data(), reply->payload.data() + spec.offset,
                            spec.size),
                0)
          << Name(spec.kind);
    }
  }
}

}  // namespace
}  // namespace quantd
