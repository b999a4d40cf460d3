// Compares calls in bands with one call, in this process, for all options and
// several cuts. Every byte must be equal.
#include "client/bands/band_plan.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/bands/band_calls.h"
#include "client/call/endpoint.h"
#include "client/local/local_devices.h"
#include "client/net/remote.h"
#include "fmt/format.h"
#include "tests/bench/rpc_process.h"
#include "tests/client/two_ways.h"
#include "tests/kernels/device/plan_rows.h"
#include "tests/testing/matchers.h"
#include "tests/testing/tensors.h"

namespace quantd::client {
namespace {

using Bytes = absl::Span<const std::byte>;

Bytes BytesOf(const oracle::Bytes& bytes) {
  return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
}

oracle::Element ElementOf(DType dtype) {
  return dtype == DType::kF32   ? oracle::Element::kF32
         : dtype == DType::kF16 ? oracle::Element::kF16
                                : oracle::Element::kBF16;
}

// Returns `plan` with another number of rows, and with further options if they
// are legal.
absl::StatusOr<Plan> Taller(const Plan& plan, int64_t rows, size_t turn) {
  TensorDesc desc = plan.tensor();
  desc.shape = {rows, plan.cols()};
  if (const auto* q = std::get_if<QuantizeOptions>(&plan.options())) {
    QuantizeOptions o = *q;
    const bool lines = HasAmaxOfLines(*FindFormat(o.format), o.form);
    if (lines && !o.rowwise_amax.empty()) {
      o.rowwise_amax.resize(static_cast<size_t>(rows));
      for (size_t i = 0; i < o.rowwise_amax.size(); ++i) {
        o.rowwise_amax[i] = 1.0f + static_cast<float>(i % 7);
      }
    }
    if (o.rounding == Rounding::kStochastic) o.stochastic.seed = turn;
    QuantizeOptions more = o;
    more.want_amax |= turn % 2 == 0;
    more.non_finite = static_cast<NonFinite>(turn % 3);
    auto made = MakeQuantizePlan(desc, more);
    return made.ok() ? made : MakeQuantizePlan(desc, o);
  }
  if (const auto* o = std::get_if<DequantizeOptions>(&plan.options())) {
    return MakeDequantizePlan(desc, *o);
  }
  if (const auto* o = std::get_if<RhtAmaxOptions>(&plan.options())) {
    RhtAmaxOptions more = *o;
    more.non_finite = static_cast<NonFinite>(turn % 3);
    return MakeRhtAmaxPlan(desc, more);
  }
  return MakeApplyRhtPlan(desc, std::get<ApplyRhtOptions>(plan.options()));
}

// Contents of successive test tensors. The first two contain no NaN or
// infinity.
constexpr Flavor kTurns[] = {Flavor::kGaussian, Flavor::kOutliers,
                             Flavor::kSpread, Flavor::kNasty,
                             Flavor::kNonFinite};

class BandPlans : public testing::Test {
 protected:
  BandPlans() {
    auto opened = client::OpenLocal("local:cpu", {});
    EXPECT_THAT(opened, IsOk());
    endpoint_ = *std::move(opened);
  }

  std::vector<Band> RandomCut(int64_t rows) {
    std::vector<Band> cut = {{0, rows}};
    for (int64_t row = kBandRows; row < rows; row += kBandRows) {
      if (random_() % 2 != 0) continue;
      cut.back().rows = row - cut.back().row;
      cut.push_back({row, rows - row});
    }
    if (cut.size() == 1) {
      cut = {{0, kBandRows}, {kBandRows, rows - kBandRows}};
    }
    return cut;
  }

  std::vector<oracle::Bytes> InputsOf(const Plan& plan) {
    std::vector<oracle::Bytes> inputs;
    for (const TensorSpec& input : plan.inputs()) {
      const auto bytes = static_cast<int64_t>(input.size);
      if (!std::holds_alternative<DequantizeOptions>(plan.options())) {
        const Flavor flavor = kTurns[turn_ % std::size(kTurns)];
        inputs.push_back(MakeTensor(ElementOf(input.dtype),
                                    plan.rows() * plan.cols(), flavor, turn_));
      } else if (input.dtype == DType::kF32) {
        inputs.push_back(
            MakeTensor(oracle::Element::kF32, bytes / 4, Flavor::kGaussian, 7));
      } else {
        inputs.push_back(RandomBytes(bytes, turn_));
      }
    }
    return inputs;
  }

  void ExpectSame(const Plan& row) {
    // Skips shapes too large to compute.
    if (row.input_bytes() + row.output_bytes() > (size_t{16} << 20)) return;
    ++turn_;
    const std::string why(WhyWhole(row));
    if (!why.empty()) {
      EXPECT_EQ(CutIntoBands(row, 1).size(), 0u);
      ++whole_[why];
      return;
    }
    const int64_t rows =
        2 * kBandRows + 1 + static_cast<int64_t>(random_() % (3 * kBandRows));
    auto plan = Taller(row, rows, turn_);
    if (!plan.ok()) plan = Taller(row, 4 * kBandRows, turn_);
    ASSERT_THAT(plan, IsOk());
    const std::vector<oracle::Bytes> inputs = InputsOf(*plan);
    std::vector<Bytes> in;
    for (const oracle::Bytes& bytes : inputs) in.push_back(BytesOf(bytes));

    const CallLimit limit{
        std::chrono::minutes(1),
        std::chrono::system_clock::now() + std::chrono::minutes(1)};
    CallControl control;
    const auto expected =
        endpoint_->Run({*plan, in, {}, {}, limit, control}, way_, {});
    // Every other call writes into the caller's memory, which is filled with
    // nonzero bytes first.
    std::vector<std::vector<double>> places;
    std::vector<Destination> into;
    for (const TensorSpec& spec : plan->outputs()) {
      if (turn_ % 2 == 0) break;
      places.emplace_back(spec.size / sizeof(double) + 1, 1e300);
      into.push_back(
          {spec.kind,
           {reinterpret_cast<std::byte*>(places.back().data()), spec.size}});
    }
    size_t done = 0;
    size_t all = 0;
    const CallProgress progress = [&](size_t some, size_t whole) {
      EXPECT_GE(some, done);
      done = some;
      all = whole;
    };
    const auto cut = RandomCut(plan->rows());
    const Call call{*plan, in, into, {}, limit, control};
    const bool needs_amax = NeedsAmax(*plan);
    const auto got =
        RunInBands({*endpoint_, *plan, call, progress, cut, 2,
                    needs_amax ? BandAmax::kSearch : BandAmax::kKnown, way_});
    ASSERT_EQ(got.status().code(), expected.status().code()) << got.status();
    if (!expected.ok()) {
      ++failed_;
      EXPECT_EQ(GetFieldViolation(got.status())->field,
                GetFieldViolation(expected.status())->field);
      return;
    }
    if (needs_amax) {
      const auto met = RunInBands({*endpoint_,
                                   *plan,
                                   call,
                                   {},
                                   cut,
                                   1 + static_cast<int>(random_() % 4),
                                   BandAmax::kMeet,
                                   way_});
      ASSERT_THAT(met, IsOk());
      ASSERT_EQ(met->has_value(), got->has_value());
      if (*met) {
        ExpectSameResult(*expected, **met);
        EXPECT_EQ((*met)->bands(), (*got)->bands());
      }
      ++met_;
    }
    if (!*got) {
      // No request can state this amax: it is NaN or Inf, or a rotation
      // overflows.
      EXPECT_TRUE(needs_amax);
      EXPECT_GT(turn_ % std::size(kTurns), 1u);
      ++not_finite_;
      return;
    }
    size_t in_all = 0;
    for (const Bytes& bytes : in) in_all += bytes.size();
    EXPECT_EQ(done, in_all);
    EXPECT_EQ(all, in_all);
    ExpectSameResult(*expected, **got);
    EXPECT_EQ((*got)->bands(), static_cast<int>(cut.size()));
    ++banded_;
  }

  static void ExpectSameResult(const Result& expected, const Result& got) {
    ExpectSameParts(expected, got);
    EXPECT_EQ(got.device(), expected.device());
  }

  std::unique_ptr<Endpoint> endpoint_;
  Way way_ = Way::kHere;
  std::mt19937 random_{17};
  size_t turn_ = 0;
  int banded_ = 0;
  int met_ = 0;
  int not_finite_ = 0;
  int failed_ = 0;
  std::map<std::string, int> whole_;
};

TEST_F(BandPlans, QuantizeGivesTheBytesOfOneCall) {
  // Covers all rows of the support matrix with one option, and a sample of the
  // rows with two.
  for (const size_t settings : {1, 2}) {
    size_t rows = 0;
    ForQuantizeRows(settings, [&](const QuantizeRow& row) {
      if (HasFailure() || (settings == 2 && ++rows % 37 != 0)) return;
      SCOPED_TRACE(fmt::format("{} {} {} {}", row.format.name, Name(row.usage),
                               Name(row.dtype), row.settings));
      ExpectSame(row.plan);
    });
  }
  EXPECT_GT(banded_, 500);
  EXPECT_GT(met_, 200);
  EXPECT_GT(not_finite_, 10);
  EXPECT_GT(failed_, 10);
  for (const char* why : {"groups", "a history, to which all rows belong",
                          "dbias, whose sums have an order",
                          "statistics, whose sums have an order"}) {
    EXPECT_GT(whole_[why], 0) << why;
  }
}

TEST_F(BandPlans, OtherMethodsGiveTheBytesOfOneCall) {
  const auto each = [&](const PlanRow& row) {
    if (HasFailure()) return;
    SCOPED_TRACE(
        fmt::format("{} {} {}", row.format, Name(row.dtype), row.settings));
    ExpectSame(row.plan);
  };
  ForDequantizeRows(each);
  const int decoded = banded_;
  size_t rows = 0;
  ForRhtAmaxRows([&](const PlanRow& row) {
    if (++rows % 5 == 0) each(row);
  });
  const int maxima = banded_;
  ForApplyRhtRows(each);
  EXPECT_GT(decoded, 100);
  EXPECT_GT(maxima, decoded + 50);
  EXPECT_GT(banded_, maxima);
}

// Runs the comparison over the network, where bands that share a reduced amax
// are sent once.
class BandPlansByWire : public BandPlans {
 protected:
  BandPlansByWire()
      : server_({bench::FindQuantd(), "--listen", "127.0.0.1:0", "--device",
                 "cpu:0"}) {
    EXPECT_TRUE(server_.running()) << server_.Log();
    auto opened = OpenRemote(server_.address(), {});
    EXPECT_THAT(opened, IsOk());
    endpoint_ = *std::move(opened);
    way_ = Way::kMessage;
  }
  ~BandPlansByWire() override { endpoint_.reset(); }
  bench::ServerProcess server_;
};

TEST_F(BandPlansByWire, QuantizeGivesTheBytesOfOneCall) {
  ForQuantizeRows(1, [&](const QuantizeRow& row) {
    if (HasFailure() || !NeedsAmax(row.plan)) return;
    // Skips plans that every server refuses: bands may report an error in the
    // input first.
    const auto& o = std::get<QuantizeOptions>(row.plan.options());
    if (!CheckShardCut(o, row.plan.rows(), row.plan.cols()).ok()) return;
    SCOPED_TRACE(fmt::format("{} {} {} {}", row.format.name, Name(row.usage),
                             Name(row.dtype), row.settings));
    ExpectSame(row.plan);
  });
  EXPECT_GT(met_, 200);
}

TEST(BandPlan, SharedAmaxUsesFewBands) {
  QuantizeOptions o;
  o.format = Format::kNvfp4;
  constexpr size_t kMiB = size_t{1} << 20;
  for (const int64_t rows : {2305, 4097, 8192, 100000}) {
    const auto plan = MakeQuantizePlan({DType::kBF16, {rows, 1024}}, o);
    ASSERT_THAT(plan, IsOk());
    const auto cut = CutToMeet(*plan, kMiB);
    EXPECT_GE(cut.size(), 2u);
    EXPECT_LE(cut.size(), kMostMeeting);
    int64_t next = 0;
    for (const Band& band : cut) {
      EXPECT_EQ(band.row, next);
      next += band.rows;
    }
    EXPECT_EQ(next, rows);
  }
  // A few bands cannot list an amax for each of so many rows.
  o.format = Format::kFp8ChannelE4M3;
  o.usage = Usage::kBoth;
  const auto narrow = MakeQuantizePlan({DType::kBF16, {1 << 20, 16}}, o);
  ASSERT_THAT(narrow, IsOk());
  EXPECT_TRUE(CutToMeet(*narrow, kMiB).empty());
}

TEST(BandPlan, CutsAtTheDocumentedRows) {
  const auto plan_of = [](std::vector<int64_t> shape) {
    QuantizeOptions o;
    o.format = Format::kMxfp8E4M3;
    return *MakeQuantizePlan({DType::kBF16, std::move(shape)}, o);
  };
  constexpr size_t kMiB = size_t{1} << 20;
  EXPECT_TRUE(CutIntoBands(plan_of({8192, 4096}), 0).empty());
  EXPECT_TRUE(CutIntoBands(plan_of({2048, 1024}), kMiB).empty()) << "4 MiB";
  EXPECT_TRUE(CutIntoBands(plan_of({0, 1024}), kMiB).empty());
  EXPECT_TRUE(CutIntoBands(plan_of({4 << 20}), kMiB).empty()) << "one row";
  EXPECT_TRUE(CutIntoBands(plan_of({128, 1 << 20}), kMiB).empty());
  const auto cut = CutIntoBands(plan_of({2049, 1024}), kMiB);
  ASSERT_EQ(cut.size(), 5u);
  int64_t next = 0;
  for (const Band& band : cut) {
    EXPECT_EQ(band.row, next);
    EXPECT_EQ(band.rows, band.row == 2048 ? 1 : 512);
    next += band.rows;
  }
  EXPECT_EQ(next, 2049);
  // Cuts further if each row has an amax that the request must list.
  QuantizeOptions o;
  o.format = Format::kFp8ChannelE4M3;
  const auto narrow = MakeQuantizePlan({DType::kBF16, {1 << 20, 16}}, o);
  ASSERT_THAT(narrow, IsOk());
  EXPECT_EQ(CutIntoBands(*narrow, 16 * kMiB).size(), 64u);
  // At the largest legal row offset, later bands would have a larger one, so
  // nothing is cut.
  o = {};
  o.format = Format::kNvfp4;
  o.rounding = Rounding::kStochastic;
  for (const bool last : {false, true}) {
    o.shard.row_offset = last ? kMaxElements : 0;
    const auto far = MakeQuantizePlan({DType::kBF16, {8192, 1024}}, o);
    ASSERT_THAT(far, IsOk());
    EXPECT_EQ(CutIntoBands(*far, kMiB).empty(), last);
  }
  // A band has at least the 128 rows of a legal cut, even if it is larger than
  // requested.
  EXPECT_EQ(CutIntoBands(plan_of({384, 1 << 20}), kMiB).size(), 3u);
}

}  // namespace
}  // namespace quantd::client
