#include "tests/kernels/golden/golden_subject.h"

#include "kernels/device/devices.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;

template <typename T>
T Value(absl::StatusOr<T> result) {
  EXPECT_THAT(result, IsOk());
  return result.ok() ? *std::move(result) : T{};
}

}  // namespace

oracle::Quantized Subject::Quantize(const oracle::QuantizeSpec& spec,
                                    const Bytes& input) {
  if (!device_) return oracle::Quantize(spec, input);
  return Value(device_->Quantize(spec, input));
}

Bytes Subject::Dequantize(const oracle::DequantizeSpec& spec,
                          const oracle::Copy& copy) {
  const Bytes out = device_ ? Value(device_->Dequantize(spec, copy))
                            : oracle::Dequantize(spec, copy);
  return oracle::CanonicalNaNs(spec.output, out);
}

oracle::Amaxes Subject::RhtAmax(int64_t rows, int64_t cols, uint16_t mask,
                                const Bytes& input) {
  const oracle::AmaxSpec spec{Element::kBF16, rows, cols, mask};
  AmaxFlags flags;
  flags.row_rotated = cols % 16 == 0;
  return device_ ? Value(device_->RhtAmax(spec, flags, input))
                 : oracle::RhtAmax(spec, input);
}

Bytes Subject::ApplyRht(Element in, Element out, uint16_t mask, bool inverse,
                        const Bytes& input) {
  const auto rows =
      static_cast<int64_t>(input.size()) / oracle::ElementSize(in) / 16;
  return device_
             ? Value(device_->ApplyRht(in, out, rows, 16, mask, inverse, input))
             : oracle::ApplyRht(in, out, mask, inverse, input);
}

std::vector<Target> Subjects() {
  std::vector<Target> subjects = Targets();
  subjects.insert(subjects.begin(), {"oracle", ""});
  return subjects;
}

std::string SubjectName(const testing::TestParamInfo<Target>& info) {
  return Identifier(info.param);
}

void GoldenTest::SetUp() {
  if (GetParam().device == "oracle") {
    subject_.emplace(std::nullopt);
    return;
  }
  if (GetParam().device == "cuda") GTEST_SKIP() << CudaUnavailableReason();
  auto device = Device::Open(GetParam());
  ASSERT_THAT(device, IsOk());
  subject_.emplace(*std::move(device));
}

}  // namespace quantd
