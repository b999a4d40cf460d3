// Compares tensors in pieces with the whole tensor in one call. Every byte must
// be equal.
#include "quantd/pieces.h"

#include <cstring>
#include <limits>
#include <string_view>

#include "quantd/local.h"
#include "tests/bench/rpc_process.h"
#include "tests/client/calls.h"
#include "tests/client/two_ways.h"

namespace quantd {
namespace {

// Runs with a server and with a local client.
class Pieces : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    server_ = new bench::ServerProcess(
        {bench::FindQuantd(), "--listen", "127.0.0.1:0", "--device", "cpu:0"});
    ASSERT_TRUE(server_->running()) << server_->Log();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  Pieces()
      : client_(*CreateClient(GetParam() == std::string_view("server")
                                  ? server_->address()
                                  : GetParam())) {}

  // Limits requests to 96 KiB, which is one and a half blocks of 128 x 128
  // fp32.
  static PieceOptions Small() {
    PieceOptions pieces;
    pieces.request_bytes = 96 << 10;
    return pieces;
  }

  static TensorReader ReaderOf(const Whole& whole) {
    return [&whole](size_t offset, absl::Span<std::byte> to) {
      std::memcpy(to.data(), whole.bytes().data() + offset, to.size());
      return absl::OkStatus();
    };
  }

  // Quantizes and decodes in pieces, and compares both with one call.
  void ExpectWhole(const Whole& whole, const QuantizeOptions& options) {
    const auto expected = client_->Quantize(whole.desc, whole.bytes(), options);
    ASSERT_THAT(expected, IsOk());
    PieceOptions pieces = Small();
    size_t told = 0;
    pieces.progress = [&](size_t bytes) { told += bytes; };
    auto joined = QuantizeInPieces(*client_, whole.desc, ReaderOf(whole),
                                   options, pieces);
    ASSERT_THAT(joined, IsOk());
    EXPECT_EQ(told, whole.bytes().size());
    EXPECT_GT(joined->attempts(), 1) << "it was not cut";
    ExpectSameParts(*expected, *joined);
    const auto q =
        QuantizedTensor::FromResult(whole.desc, options, *std::move(joined));
    ASSERT_THAT(q, IsOk());
    for (const Usage usage : {Usage::kRowwise, Usage::kColumnwise}) {
      if ((usage == Usage::kRowwise ? q->rowwise() : q->columnwise()) ==
          std::nullopt) {
        continue;
      }
      SCOPED_TRACE(Name(usage));
      const auto back = q->DequantizeCopy(*client_, usage, DType::kF32);
      ASSERT_THAT(back, IsOk());
      const auto* all = reinterpret_cast<const float*>(
          back->bytes(TensorKind::kDequantized).data());
      const int64_t cols = whole.desc.shape.back();
      size_t seen = 0;
      size_t wrong = 0;
      int calls = 0;
      const auto status = DequantizeInPieces(
          *client_, *q, usage, DType::kF32,
          [&](const Shard& place, const Result& decoded) {
            const auto some = decoded.as<float>(TensorKind::kDequantized);
            ++calls;
            seen += some.size();
            for (int64_t r = 0; r < place.rows; ++r) {
              wrong += std::memcmp(&some[r * place.cols],
                                   &all[(place.row + r) * cols + place.column],
                                   static_cast<size_t>(place.cols) * 4) != 0;
            }
            return absl::OkStatus();
          },
          Small());
      EXPECT_THAT(status, IsOk());
      EXPECT_EQ(wrong, 0u);
      EXPECT_EQ(seen, whole.values.size());
      EXPECT_GT(calls, 1);
    }
  }

  static QuantizeOptions Of(Format format, Usage usage = Usage::kBoth) {
    QuantizeOptions o;
    o.format = format;
    o.usage = usage;
    return o;
  }

  static inline bench::ServerProcess* server_ = nullptr;
  const std::unique_ptr<Client> client_;
};

INSTANTIATE_TEST_SUITE_P(, Pieces, testing::Values("server", "local:cpu"),
                         [](const auto& param) {
                           return param.index == 0 ? "Server" : "Local";
                         });

TEST_P(Pieces, EveryFormatAndLayout) {
  // Tensors with incomplete blocks at the end. A piece can hold whole rows of
  // `tall` and `deep`, but not of `wide`.
  const Whole tall({700, 96});
  const Whole wide({300, 800});
  const Whole deep({3, 100, 160});
  for (const FormatSpec& f : kFormats) {
    SCOPED_TRACE(f.name);
    QuantizeOptions o = Of(f.format);
    ExpectWhole(wide, o);
    ExpectWhole(deep, o);
    // Rowwise data need whole blocks in each row.
    if (f.block <= 32) ExpectWhole(tall, o);
    if (f.options & kOptSwizzled) {
      o.form.scale_layout = Layout::kSwizzled;
      ExpectWhole(wide, o);
      ExpectWhole(tall, o);
      o.form.scale_layout = Layout::kLinear;
    }
    if (f.options & kOptCompact) {
      o.form.compact_scales = true;
      ExpectWhole(wide, o);
    }
  }
}

TEST_P(Pieces, EveryOptionOfNvfp4) {
  const Whole whole({600, 512});
  QuantizeOptions o = Of(Format::kNvfp4);
  o.want_amax = o.statistics = true;
  for (const int dimension : {16, 128}) {
    o.rht = {true, true, dimension, RandomSignMask(5, dimension)};
    ExpectWhole(whole, o);
  }
  o.nvfp4.amax_estimation_scale = 2.0f;
  ExpectWhole(whole, o);
  o = Of(Format::kNvfp4);
  o.form.row_scaled = true;
  ExpectWhole(whole, o);
  o = Of(Format::kNvfp4Square);
  o.rounding = Rounding::kStochastic;
  o.stochastic = {77, 3};
  o.shard = {32, 64, 1024};
  ExpectWhole(whole, o);
  o = Of(Format::kNvfp4);
  o.rowwise_amax = {3.0f};
  o.columnwise_amax = {5.0f};
  ExpectWhole(whole, o);
  // The rowwise amax is given, the columnwise one computed.
  o.columnwise_amax.clear();
  o.rht.columnwise = true;
  ExpectWhole(whole, o);
  o = Of(Format::kFp8E4M3);
  o.fp8.scale = {8};
  ExpectWhole(whole, o);
}

TEST_P(Pieces, OneLongRow) {
  const Whole row({200'000});
  ExpectWhole(row, Of(Format::kNvfp4, Usage::kRowwise));
  const Whole two({2, 100'000});
  ExpectWhole(two, Of(Format::kMxfp8E4M3, Usage::kRowwise));
}

TEST_P(Pieces, StatisticsAddUp) {
  const Whole whole({600, 512});
  QuantizeOptions o = Of(Format::kNvfp4, Usage::kRowwise);
  o.statistics = true;
  const auto one = client_->Quantize(whole.desc, whole.bytes(), o);
  const auto many =
      QuantizeInPieces(*client_, whole.desc, ReaderOf(whole), o, Small());
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(many, IsOk());
  const auto& a = one->statistics(Usage::kRowwise);
  const auto& b = many->statistics(Usage::kRowwise);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->elements, b->elements);
  EXPECT_EQ(a->flushed, b->flushed);
  EXPECT_EQ(a->max_error, b->max_error);
  EXPECT_NEAR(a->sqnr_db(), b->sqnr_db(), 1e-4);
}

TEST_P(Pieces, ReportProgressOfBands) {
  const Whole whole({2048, 1024});
  ClientOptions options;
  options.band_bytes = 1 << 20;
  const auto client = *CreateClient(client_->target(), options);
  PieceOptions pieces;
  size_t told = 0;
  int times = 0;
  pieces.progress = [&](size_t bytes) {
    told += bytes;
    times += bytes > 0;
  };
  QuantizeOptions o = Of(Format::kMxfp8E4M3);
  const auto result =
      QuantizeInPieces(*client, whole.desc, ReaderOf(whole), o, pieces);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(told, whole.bytes().size());
  // A local client does not cut calls into bands, so it reports once.
  EXPECT_EQ(times, result->bands());
  EXPECT_EQ(result->bands(), client_->target() == "local:cpu" ? 1 : 8);
}

TEST_P(Pieces, RhtAmaxEqualsOneCall) {
  const Whole whole({600, 512});
  for (const AmaxDomain domain : {AmaxDomain::kTensor, AmaxDomain::kRow}) {
    RhtAmaxOptions o;
    o.rowwise = o.rowwise_rht = o.columnwise = o.columnwise_rht = true;
    o.rht_dimension = 64;
    o.domain = domain;
    const auto one = client_->RhtAmax(whole.desc, whole.bytes(), o);
    const auto many =
        RhtAmaxInPieces(*client_, whole.desc, ReaderOf(whole), o, Small());
    ASSERT_THAT(one, IsOk());
    ASSERT_THAT(many, IsOk());
    ExpectSameParts(*one, *many);
  }
}

TEST_P(Pieces, RefuseUnsupportedOptions) {
  Whole whole({600, 512});
  const auto field = [&](const QuantizeOptions& o) {
    const auto s =
        QuantizeInPieces(*client_, whole.desc, ReaderOf(whole), o, Small())
            .status();
    const auto violation = GetFieldViolation(s);
    return violation ? violation->field : s.ToString();
  };
  QuantizeOptions o = Of(Format::kNvfp4);
  o.splits = {600};
  EXPECT_EQ(field(o), "splits");
  o = Of(Format::kNvfp4);
  o.dbias = true;
  EXPECT_EQ(field(o), "dbias");
  whole.values[1234] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(field(Of(Format::kNvfp4)), "payload");
  PieceOptions tiny;
  tiny.request_bytes = 1000;
  EXPECT_THAT(QuantizeInPieces(*client_, whole.desc, ReaderOf(whole),
                               Of(Format::kNvfp4), tiny),
              StatusIs(absl::StatusCode::kResourceExhausted));
  // A failing input ends the call with its own error.
  const auto broken = [](size_t, absl::Span<std::byte>) {
    return absl::DataLossError("gone");
  };
  EXPECT_THAT(QuantizeInPieces(*client_, whole.desc, broken, Of(Format::kNvfp4),
                               Small()),
              StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace quantd
