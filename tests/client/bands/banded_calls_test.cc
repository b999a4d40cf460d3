// Tests that calls in bands over the network give the bytes of one call.
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/client/bands/banded.h"
#include "tests/client/calls.h"
#include "tests/client/temp_dir.h"

namespace quantd {
namespace {

using testing::HasSubstr;

TEST(BandedCalls, GiveTheBytesOfOneCall) {
  const auto server = Start({});
  const auto one = Connect(server->address());
  const Tensor x;
  for (const int channels : {1, 4}) {
    ClientOptions some = InBands();
    some.channels = channels;
    const auto many = Connect(server->address(), some);
    QuantizeOptions o = Nvfp4(Usage::kBoth);
    o.rht = {false, true, 64, {}};
    o.rounding = Rounding::kStochastic;
    o.stochastic.seed = 77;
    const auto expected = one->Quantize(x.desc, x.bytes(), o);
    ASSERT_THAT(expected, IsOk());
    size_t done = 0;
    CallOptions call;
    call.progress = [&](size_t some_bytes, size_t all) {
      EXPECT_GT(some_bytes, done);
      EXPECT_EQ(all, x.bytes().size());
      done = some_bytes;
    };
    const auto got = many->Quantize(x.desc, x.bytes(), o, call);
    ASSERT_THAT(got, IsOk());
    EXPECT_EQ(got->bands(), 7);
    EXPECT_EQ(got->attempts(), 7) << "each band is sent once";
    EXPECT_TRUE(got->streamed());
    EXPECT_EQ(done, x.bytes().size());
    EXPECT_EQ(got->device(), "cpu:0");
    EXPECT_NE(got->request_id(), "");
    EXPECT_EQ(got->transport(), Transport::kTcp);
    ExpectSame(*expected, *got);

    // With given amaxes each band is sent once, and the client needs no further
    // thread.
    o.rowwise_amax = {300.0f};
    o.columnwise_amax = {400.0f};
    const auto known = many->QuantizeAsync(x.desc, x.bytes(), o).get();
    ASSERT_THAT(known, IsOk());
    EXPECT_EQ(known->attempts(), 9);
    ExpectSame(*one->Quantize(x.desc, x.bytes(), o), *known);

    DequantizeOptions back;
    back.format = Format::kNvfp4;
    back.output = DType::kF32;
    for (const Usage usage : {Usage::kRowwise, Usage::kColumnwise}) {
      const bool rows = usage == Usage::kRowwise;
      back.usage = usage;
      back.inverse_rht = !rows;
      back.rht_dimension = rows ? 16 : 64;
      const QuantizedBytes codes = {
          got->bytes(rows ? TensorKind::kRowwiseData
                          : TensorKind::kColumnwiseData),
          got->bytes(rows ? TensorKind::kRowwiseScale
                          : TensorKind::kColumnwiseScale),
          got->amaxes(rows ? TensorKind::kRowwiseAmax
                           : TensorKind::kColumnwiseAmax)};
      const auto decoded = many->Dequantize(x.desc, codes, back);
      ASSERT_THAT(decoded, IsOk());
      EXPECT_EQ(decoded->bands(), 17)
          << "the larger reply determines the number of bands";
      ExpectSame(*one->Dequantize(x.desc, codes, back), *decoded);
    }
    RhtAmaxOptions maxima;
    maxima.rowwise = maxima.rowwise_rht = maxima.columnwise = true;
    const auto amax = many->RhtAmax(x.desc, x.bytes(), maxima);
    ASSERT_THAT(amax, IsOk());
    EXPECT_EQ(amax->bands(), 9);
    ExpectSame(*one->RhtAmax(x.desc, x.bytes(), maxima), *amax);
    std::vector<std::byte> place(x.bytes().size());
    call = {};
    call.into = {{TensorKind::kRotated, absl::MakeSpan(place)}};
    const auto rotated = many->ApplyRht(x.desc, x.bytes(), {}, call);
    ASSERT_THAT(rotated, IsOk());
    EXPECT_EQ(rotated->bands(), 9);
    EXPECT_EQ(rotated->bytes(TensorKind::kRotated).data(), place.data());
    ExpectSame(*one->ApplyRht(x.desc, x.bytes(), {}), *rotated);
  }
}

TEST(BandedCalls, FitIntoServersThatRefuseTheWholeTensor) {
  const auto server = Start({"--memory-budget", "64MiB"});
  const Tensor x(48 << 10, 1024);
  ASSERT_EQ(x.bytes().size(), 96 * kMiB);
  const auto refused =
      Connect(server->address())->Quantize(x.desc, x.bytes(), Nvfp4());
  ASSERT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(GetServerError(refused.status())->reason, ErrorReason::kTooLarge);
  const auto got = Connect(server->address(), InBands(4 * kMiB))
                       ->Quantize(x.desc, x.bytes(), Nvfp4());
  ASSERT_THAT(got, IsOk());
  EXPECT_EQ(got->bands(), 24);
  EXPECT_EQ(got->attempts(), 48)
      << "each band is sent twice: for the amax, then for the codes";
}

// If the request does not mention estimates, the server's default also applies
// to bands, whether they are sent once or, with little memory, twice.
TEST(BandedCalls, UseTheServersDefaultEstimate) {
  for (const bool twice : {false, true}) {
    const auto server = Start(
        {"--estimate", "1.5", "--memory-budget", twice ? "24MiB" : "512MiB"});
    const auto one = Connect(server->address());
    const auto many = Connect(server->address(), InBands());
    const Tensor x;
    QuantizeOptions o = Nvfp4(Usage::kBoth);
    o.rht.columnwise = true;
    const auto whole = one->Quantize(x.desc, x.bytes(), o);
    const auto banded = many->Quantize(x.desc, x.bytes(), o);
    ASSERT_THAT(whole, IsOk());
    ASSERT_THAT(banded, IsOk()) << server->Log();
    EXPECT_GT(banded->bands(), 1);
    EXPECT_EQ(banded->attempts(), (twice ? 2 : 1) * banded->bands());
    ExpectSame(*whole, *banded);
    // Declining the estimate gives another amax.
    o.nvfp4.amax_estimation_scale = 0;
    const auto found = many->Quantize(x.desc, x.bytes(), o);
    ASSERT_THAT(found, IsOk());
    ExpectSame(*one->Quantize(x.desc, x.bytes(), o), *found);
    EXPECT_NE(found->amax(TensorKind::kColumnwiseAmax),
              banded->amax(TensorKind::kColumnwiseAmax));
  }
}

// A tensor that its result overwrites is sent in one piece. Otherwise another
// band, or a retried one, would read results as input.
TEST(BandedCalls, AreNotUsedIfTheResultOverwritesTheInput) {
  const auto server = Start({});
  const Tensor x;
  const auto expected =
      Connect(server->address())->ApplyRht(x.desc, x.bytes(), {});
  ASSERT_THAT(expected, IsOk());
  Tensor y;
  const size_t size = y.bytes().size();
  const absl::Span<std::byte> place(
      reinterpret_cast<std::byte*>(y.values.data()), size);
  CallOptions call;
  call.into = {{TensorKind::kRotated, place}};
  const auto replaced = Connect(server->address(), InBands())
                            ->ApplyRht(y.desc, y.bytes(), {}, call);
  ASSERT_THAT(replaced, IsOk());
  EXPECT_EQ(replaced->bands(), 1);
  ExpectSame(*expected, *replaced);

  ClientOptions chunks;
  chunks.stream_from = 0;
  const auto streams = Connect(server->address(), chunks);
  const auto refused = streams->ApplyRht(y.desc, y.bytes(), {}, call).status();
  ASSERT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(GetFieldViolation(refused)->field, "into[0]");
  // A result that does not overlap the input is cut as usual.
  std::vector<std::byte> both(2 * size);
  std::memcpy(both.data(), x.bytes().data(), size);
  call.into = {{TensorKind::kRotated, absl::MakeSpan(both).subspan(size)}};
  const auto beside =
      streams->ApplyRht(x.desc, absl::MakeSpan(both).first(size), {}, call);
  ASSERT_THAT(beside, IsOk());
  EXPECT_TRUE(beside->streamed());
  ExpectSame(*expected, *beside);
}

// Calls finish even if each holds server memory that the others wait for: a
// band that waits for an amax gives up its memory, and is sent again.
TEST(BandedCalls, ConcurrentCallsFinishWithMemoryForOne) {
  const auto server = Start({"--memory-budget", "64MiB"});
  const auto client = Connect(server->address(), InBands());
  const Tensor x(8192, 1024);
  const auto expected =
      Connect(server->address())->Quantize(x.desc, x.bytes(), Nvfp4());
  ASSERT_THAT(expected, IsOk());
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      CallOptions call;
      call.deadline = std::chrono::minutes(2);
      const auto got = client->Quantize(x.desc, x.bytes(), Nvfp4(), call);
      ASSERT_THAT(got, IsOk());
      EXPECT_EQ(got->bands(), 8);
      ExpectSame(*expected, *got);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// Half of the server's memory would hold all bands, but each device holds only
// one. The bands must not wait for each other's amax, because the last one
// would find no memory.
TEST(BandedCalls, ShareAnAmaxOnlyIfDevicesHoldAllBands) {
  const auto server =
      Start({"--memory-budget", "64MiB"}, "cpu:0,fault:cpu:1,fault:cpu:2");
  const auto roomy = Start({});
  for (const auto& [rows, band_bytes, bands, sent] :
       {std::tuple(12288, 6 * kMiB, 4, 8), std::tuple(4096, 2 * kMiB, 4, 4)}) {
    const Tensor x(rows, 1024);
    const auto expected =
        Connect(roomy->address())->Quantize(x.desc, x.bytes(), Nvfp4());
    ASSERT_THAT(expected, IsOk());
    const auto got = Connect(server->address(), InBands(band_bytes))
                         ->Quantize(x.desc, x.bytes(), Nvfp4());
    ASSERT_THAT(got, IsOk());
    EXPECT_EQ(got->bands(), bands);
    EXPECT_EQ(got->attempts(), sent);
    ExpectSame(*expected, *got);
  }
}

TEST(BandedCalls, HandleNanAndInf) {
  const auto server = Start({});
  const auto one = Connect(server->address());
  const auto many = Connect(server->address(), InBands());
  Tensor x;
  x.values[3000 * 1024 + 5] = 0x7FC0;  // NaN, in the sixth band
  QuantizeOptions o = Nvfp4();
  auto got = many->Quantize(x.desc, x.bytes(), o);
  ASSERT_THAT(got, IsOk());
  EXPECT_EQ(got->bands(), 7) << "NaN is dropped from maxima";
  EXPECT_TRUE(got->saw_nan());
  ExpectSame(*one->Quantize(x.desc, x.bytes(), o), *got);

  // NaN as amax is something that no request can state, so the call is not cut.
  o.non_finite = NonFinite::kPropagate;
  got = many->Quantize(x.desc, x.bytes(), o);
  ASSERT_THAT(got, IsOk());
  EXPECT_EQ(got->bands(), 1);
  EXPECT_TRUE(std::isnan(*got->amax(TensorKind::kRowwiseAmax)));
  ExpectSame(*one->Quantize(x.desc, x.bytes(), o), *got);

  o.non_finite = NonFinite::kReject;
  const auto expected = one->Quantize(x.desc, x.bytes(), o).status();
  for (const bool given : {false, true}) {
    if (given) o.rowwise_amax = {100.0f};
    const auto refused = many->Quantize(x.desc, x.bytes(), o).status();
    ASSERT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_EQ(GetFieldViolation(refused)->field,
              GetFieldViolation(expected)->field);
    EXPECT_THAT(
        std::string(refused.message()),
        HasSubstr(given ? "rows 2560 to 3071: " : "rows 2560 to 3199: "));
    EXPECT_NE(GetRequestId(refused), "");
  }
}

}  // namespace
}  // namespace quantd
