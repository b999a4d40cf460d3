// Compares a local client with a client of a server: every byte, report and
// error must be equal.
#include <algorithm>
#include <limits>
#include <string>

#include "quantd/local.h"
#include "tests/bench/rpc_process.h"
#include "tests/client/two_ways.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

// The shape of a tensor that every format accepts rowwise and columnwise.
const std::vector<int64_t> kShape = {320, 256};

class LocalAgreement : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    process_ = new bench::ServerProcess(
        {bench::FindQuantd(), "--listen", "127.0.0.1:0", "--device", "cpu:0"});
    ASSERT_TRUE(process_->running()) << process_->Log();
    server_ = Open(process_->address());
    local_ = Open("local:cpu");
  }
  static void TearDownTestSuite() {
    server_.reset();
    local_.reset();
    delete process_;
    process_ = nullptr;
  }
  static std::unique_ptr<Client> Open(const std::string& target) {
    auto client = CreateClient(target);
    EXPECT_THAT(client, IsOk());
    return client.ok() ? *std::move(client) : nullptr;
  }

  static void ExpectSame(const absl::StatusOr<Result>& theirs,
                         const absl::StatusOr<Result>& ours) {
    if (!theirs.ok()) return ExpectSameError(theirs.status(), ours.status());
    ASSERT_THAT(ours, IsOk());
    ExpectSameParts(*theirs, *ours);
    ExpectSameStatistics(*theirs, *ours);
    EXPECT_EQ(theirs->device(), ours->device());
    EXPECT_EQ(theirs->attempts(), ours->attempts());
  }

  static void ExpectSameError(const absl::Status& theirs,
                              const absl::Status& ours) {
    EXPECT_EQ(theirs.code(), ours.code()) << ours;
    std::string text(theirs.message());
    text.resize(std::min(text.size(), text.find(" (request id ")));
    EXPECT_EQ(text, std::string(ours.message()));
    const auto a = GetFieldViolation(theirs);
    const auto b = GetFieldViolation(ours);
    ASSERT_EQ(a.has_value(), b.has_value()) << ours;
    if (a) {
      EXPECT_EQ(a->field, b->field);
      EXPECT_EQ(a->expected, b->expected);
      EXPECT_EQ(a->got, b->got);
    }
    const auto said = GetServerError(theirs);
    const auto say = GetServerError(ours);
    ASSERT_EQ(said.has_value(), say.has_value()) << ours;
    if (said) {
      EXPECT_EQ(said->reason, say->reason);
    }
    EXPECT_EQ(GetAttempts(theirs), GetAttempts(ours));
    EXPECT_EQ(GetRetryHint(theirs).has_value(), GetRetryHint(ours).has_value());
  }

  static void Quantize(const Whole& whole, const QuantizeOptions& options) {
    ExpectSame(server_->Quantize(whole.desc, whole.bytes(), options),
               local_->Quantize(whole.desc, whole.bytes(), options));
  }

  static inline bench::ServerProcess* process_ = nullptr;
  static inline std::unique_ptr<Client> server_;
  static inline std::unique_ptr<Client> local_;
};

TEST_F(LocalAgreement, QuantizesAndDecodesEveryFormat) {
  const Whole whole(kShape);
  for (const FormatSpec& format : kFormats) {
    for (const Usage usage :
         {Usage::kRowwise, Usage::kColumnwise, Usage::kBoth}) {
      SCOPED_TRACE(fmt::format("{} {}", format.name, Name(usage)));
      QuantizeOptions o;
      o.format = format.format;
      o.usage = usage;
      o.want_amax = o.dbias = o.statistics = true;
      Quantize(whole, o);
      if (usage == Usage::kBoth) continue;
      const auto made = local_->Quantize(whole.desc, whole.bytes(), o);
      ASSERT_THAT(made, IsOk());
      const bool columns = usage == Usage::kColumnwise;
      const QuantizedBytes codes = {
          made->bytes(columns ? TensorKind::kColumnwiseData
                              : TensorKind::kRowwiseData),
          made->bytes(columns ? TensorKind::kColumnwiseScale
                              : TensorKind::kRowwiseScale),
          made->amaxes(columns ? TensorKind::kColumnwiseAmax
                               : TensorKind::kRowwiseAmax)};
      const DequantizeOptions back = {
          .format = format.format, .usage = usage, .output = DType::kBF16};
      ExpectSame(server_->Dequantize(whole.desc, codes, back),
                 local_->Dequantize(whole.desc, codes, back));
    }
  }
}

TEST_F(LocalAgreement, Options) {
  const Whole whole(kShape);
  QuantizeOptions o;
  o.format = Format::kNvfp4;
  o.usage = Usage::kBoth;
  o.rht = {true, true, 64, RandomSignMask(5, 64)};
  o.non_finite = NonFinite::kPropagate;
  Quantize(whole, o);
  o = {};
  o.format = Format::kNvfp4Square;
  o.rounding = Rounding::kStochastic;
  o.stochastic = {77, 3};
  Quantize(whole, o);
  o = {};
  o.format = Format::kMxfp8E4M3;
  o.splits = {{64, 0, 256}};
  Quantize(whole, o);
  o = {};
  o.format = Format::kFp8E4M3;
  o.fp8.history = HistoryOptions{.amax = {1, 2, 3}};
  o.fp8.scale = {4};
  Quantize(whole, o);
  RhtAmaxOptions amax;
  amax.rowwise = amax.rowwise_rht = amax.columnwise_rht = true;
  ExpectSame(server_->RhtAmax(whole.desc, whole.bytes(), amax),
             local_->RhtAmax(whole.desc, whole.bytes(), amax));
  ExpectSame(server_->ApplyRht(whole.desc, whole.bytes(), {}),
             local_->ApplyRht(whole.desc, whole.bytes(), {}));
}

TEST_F(LocalAgreement, Profiles) {
  Whole whole(kShape);
  // Counts global scales for which the library itself would write NaN.
  std::fill(whole.values.begin(), whole.values.end(), 0.0f);
  QuantizeOptions o;
  o.format = Format::kNvfp4;
  o.profile = *ParseProfile("modelopt@0.47");
  Quantize(whole, o);
  const auto ours = local_->Quantize(whole.desc, whole.bytes(), o);
  ASSERT_THAT(ours, IsOk());
  EXPECT_EQ(ours->replaced_globals(), 1);
}

TEST_F(LocalAgreement, BadInput) {
  Whole whole(kShape);
  QuantizeOptions o;
  Quantize(whole, o);  // no format
  o.format = Format::kNvfp4;
  o.fp8.scale = {1};
  Quantize(whole, o);  // not an option of the format
  o.fp8.scale.clear();
  o.splits = {{1, 2}};
  Quantize(whole, o);
  o.splits.reset();
  whole.desc.shape = {320, 255};
  Quantize(whole, o);
  whole.desc.shape = {320, 512};
  Quantize(whole, o);  // too few bytes
  whole.desc.shape = {320, 256};
  // An error that only the device finds.
  o.non_finite = NonFinite::kReject;
  whole.values[1234] = std::numeric_limits<float>::quiet_NaN();
  Quantize(whole, o);
  EXPECT_THAT(local_->Quantize(whole.desc, whole.bytes(), o),
              StatusIs(absl::StatusCode::kInvalidArgument));
  std::vector<std::byte> place(8);
  const CallOptions into = {
      .into = {{TensorKind::kRowwiseData, absl::MakeSpan(place)}}};
  ExpectSame(server_->Quantize(whole.desc, whole.bytes(), o, into),
             local_->Quantize(whole.desc, whole.bytes(), o, into));
  ExpectSame(
      server_->Dequantize(whole.desc, {},
                          {.format = Format::kNvfp4, .output = DType::kF32}),
      local_->Dequantize(whole.desc, {},
                         {.format = Format::kNvfp4, .output = DType::kF32}));
}

TEST_F(LocalAgreement, CancelledAndExpiredCalls) {
  const Whole whole(kShape);
  QuantizeOptions o;
  o.format = Format::kNvfp4;
  CallOptions call;
  call.cancel.emplace();
  call.cancel->Cancel();
  const auto ours = local_->Quantize(whole.desc, whole.bytes(), o, call);
  const auto theirs = server_->Quantize(whole.desc, whole.bytes(), o, call);
  EXPECT_EQ(ours.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ours.status().code(), theirs.status().code());
}

TEST_F(LocalAgreement, DescriptionsAndFormats) {
  const Whole whole(kShape);
  QuantizeOptions o;
  o.format = Format::kNvfp4;
  o.usage = Usage::kBoth;
  o.dbias = true;
  const auto theirs = server_->DescribeQuantize(whole.desc, o);
  const auto ours = local_->DescribeQuantize(whole.desc, o);
  ASSERT_THAT(theirs, IsOk());
  ASSERT_THAT(ours, IsOk());
  EXPECT_EQ(theirs->input_bytes, ours->input_bytes);
  EXPECT_EQ(theirs->output_bytes, ours->output_bytes);
  EXPECT_EQ(theirs->scratch_bytes, ours->scratch_bytes);
  ASSERT_EQ(theirs->parts.size(), ours->parts.size());
  for (size_t i = 0; i < ours->parts.size(); ++i) {
    EXPECT_EQ(theirs->parts[i].kind, ours->parts[i].kind);
    EXPECT_EQ(theirs->parts[i].offset, ours->parts[i].offset);
    EXPECT_EQ(theirs->parts[i].shape, ours->parts[i].shape);
  }
  const auto there = server_->GetServerInfo();
  const auto here = local_->GetServerInfo();
  ASSERT_THAT(there, IsOk());
  ASSERT_THAT(here, IsOk());
  EXPECT_EQ(there->version, here->version);
  EXPECT_EQ(there->max_rank, here->max_rank);
  EXPECT_EQ(there->memory_budget_bytes, here->memory_budget_bytes);
  ASSERT_EQ(here->devices.size(), 1u);
  EXPECT_EQ(there->devices[0].name, here->devices[0].name);
  EXPECT_EQ(there->devices[0].description, here->devices[0].description);
  EXPECT_GT(here->devices[0].jobs, 0u);
  ASSERT_EQ(there->formats.size(), here->formats.size());
  for (size_t i = 0; i < here->formats.size(); ++i) {
    const FormatSupport& a = there->formats[i];
    const FormatSupport& b = here->formats[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.format, b.format);
    EXPECT_EQ(a.device_kinds, b.device_kinds);
    EXPECT_EQ(a.inputs, b.inputs);
    EXPECT_EQ(a.usages, b.usages);
    EXPECT_EQ(a.rht_dimensions, b.rht_dimensions);
    EXPECT_EQ(a.options, b.options);
  }
}

}  // namespace
}  // namespace quantd
