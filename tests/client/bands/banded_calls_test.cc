// Calls in bands over the wire: the bytes of one call, and what happens to a
// call some of whose bands go wrong.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "tests/bench/rpc_process.h"
#include "tests/client/calls.h"
#include "tests/client/fake_server.h"
#include "tests/client/gate.h"
#include "tests/client/temp_dir.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using bench::ServerProcess;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;
using Bytes = absl::Span<const std::byte>;

constexpr size_t kMiB = size_t{1} << 20;

std::unique_ptr<ServerProcess> Start(const std::vector<std::string>& flags) {
  std::vector<std::string> line = {bench::FindQuantd(), "--listen",
                                   "127.0.0.1:0", "--device", "cpu:0"};
  line.insert(line.end(), flags.begin(), flags.end());
  auto process = std::make_unique<ServerProcess>(line);
  EXPECT_TRUE(process->running()) << process->Log();
  return process;
}

ClientOptions InBands(size_t band_bytes = kMiB) {
  ClientOptions options;
  options.band_bytes = band_bytes;
  return options;
}

// 8 MiB of bf16 between 2^-7 and 2^8, of either sign; the last rows are few.
class Tensor {
 public:
  explicit Tensor(int64_t rows = 4097, int64_t cols = 1024)
      : desc{DType::kBF16, {rows, cols}} {
    std::mt19937 random(5);
    values.resize(static_cast<size_t>(rows * cols));
    for (uint16_t& v : values) {
      v = static_cast<uint16_t>((random() & 0x87FF) | 0x3C00);
    }
  }
  Bytes bytes() const {
    return {reinterpret_cast<const std::byte*>(values.data()),
            values.size() * sizeof(uint16_t)};
  }
  TensorDesc desc;
  std::vector<uint16_t> values;
};

void ExpectSame(const Result& one, const Result& bands) {
  ASSERT_EQ(one.parts().size(), bands.parts().size());
  for (const TensorSpec& part : one.parts()) {
    EXPECT_TRUE(
        BytesEq(Name(part.kind), one.bytes(part.kind), bands.bytes(part.kind)));
  }
  EXPECT_EQ(one.bands(), 1);
  EXPECT_EQ(one.saw_nan(), bands.saw_nan());
  EXPECT_EQ(one.saw_inf(), bands.saw_inf());
}

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
    EXPECT_EQ(got->bands(), 9);
    EXPECT_EQ(got->attempts(), 18) << "the amax first, then the codes";
    EXPECT_EQ(done, x.bytes().size());
    EXPECT_EQ(got->device(), "cpu:0");
    EXPECT_NE(got->request_id(), "");
    EXPECT_EQ(got->transport(), Transport::kTcp);
    ExpectSame(*expected, *got);

    // Known, it is sent once; the thread is the client's own.
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
      EXPECT_EQ(decoded->bands(), 17) << "by what comes back";
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

TEST(BandedCalls, LeaveAloneWhatIsSmallOrCannotBeCut) {
  const auto server = Start({});
  const auto client = Connect(server->address(), InBands());
  const auto expect_one = [&](const TensorDesc& desc, Bytes bytes,
                              const QuantizeOptions& o) {
    size_t done = 0;
    CallOptions call;
    call.progress = [&](size_t some, size_t all) {
      EXPECT_EQ(some, all);
      done = some;
    };
    const auto result = client->Quantize(desc, bytes, o, call);
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->bands(), 1);
    EXPECT_EQ(result->attempts(), 1);
    EXPECT_EQ(done, bytes.size());
  };
  const Tensor small(2048, 1024);
  expect_one(small.desc, small.bytes(), Nvfp4());
  const Tensor row(1, 4 << 20);
  expect_one(row.desc, row.bytes(), Nvfp4());
  expect_one({DType::kBF16, {0, 1024}}, {}, Nvfp4());
  const Tensor x;
  QuantizeOptions o = Nvfp4();
  o.statistics = true;
  expect_one(x.desc, x.bytes(), o);
  o = Nvfp4();
  o.splits = {4097};
  expect_one(x.desc, x.bytes(), o);
}

TEST(BandedCalls, AreNotWhatLiesInSharedMemory) {
  const TempDir folder;
  const std::string door = folder / "door";
  const auto server = Start({"--memory-socket", door});
  ClientOptions options = InBands();
  options.memory_socket = door;
  const auto client = Connect(server->address(), options);
  const Tensor x;
  const auto memory = client->AllocateHost(x.bytes().size());
  ASSERT_THAT(memory, IsOk());
  std::memcpy(memory->bytes().data(), x.bytes().data(), x.bytes().size());
  const auto shared = client->Quantize(x.desc, memory->bytes(), Nvfp4());
  ASSERT_THAT(shared, IsOk());
  EXPECT_EQ(shared->transport(), Transport::kShared);
  EXPECT_EQ(shared->bands(), 1);
  const auto sent = client->Quantize(x.desc, x.bytes(), Nvfp4());
  ASSERT_THAT(sent, IsOk());
  EXPECT_EQ(sent->bands(), 9);
  ExpectSame(*shared, *sent);
}

TEST(BandedCalls, FitWhereTheWholeDoesNot) {
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
}

TEST(BandedCalls, NanAndInf) {
  const auto server = Start({});
  const auto one = Connect(server->address());
  const auto many = Connect(server->address(), InBands());
  Tensor x;
  x.values[3000 * 1024 + 5] = 0x7FC0;  // NaN, in the sixth band
  QuantizeOptions o = Nvfp4();
  auto got = many->Quantize(x.desc, x.bytes(), o);
  ASSERT_THAT(got, IsOk());
  EXPECT_EQ(got->bands(), 9) << "NaN is dropped from maxima";
  EXPECT_TRUE(got->saw_nan());
  ExpectSame(*one->Quantize(x.desc, x.bytes(), o), *got);

  // An amax that no request can give.
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
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("rows 2560 to 3071: "));
    EXPECT_NE(GetRequestId(refused), "");
  }
}

TEST(BandedCalls, OptionsAreChecked) {
  const auto client = Client::Create("127.0.0.1:1", InBands(1000));
  ASSERT_THAT(client, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(GetFieldViolation(client.status())->field, "band_bytes");
}

TEST(BandedCalls, ServersThatDieAreDoneWithout) {
  auto a = Start({});
  const auto b = Start({});
  const Tensor x(32 << 10, 1024);
  QuantizeOptions o = Nvfp4();
  const auto expected = Connect(b->address())->Quantize(x.desc, x.bytes(), o);
  ASSERT_THAT(expected, IsOk());
  const auto client =
      Connect(a->address() + "," + b->address(), InBands(256 << 10));
  // Dies when a quarter is done.
  std::atomic<bool> killed = false;
  CallOptions call;
  call.progress = [&](size_t done, size_t all) {
    if (done < all / 4 || killed.exchange(true)) return;
    a->Signal(SIGKILL);
  };
  const auto got = client->Quantize(x.desc, x.bytes(), o, call);
  ASSERT_THAT(got, IsOk());
  EXPECT_TRUE(killed);
  EXPECT_EQ(got->bands(), 256);
  ExpectSame(*expected, *got);
}

TEST(BandedCalls, TheOnlyServerDies) {
  const auto server = Start({});
  Gate gate(server->address());
  gate.Open(3 * kMiB);
  ClientOptions options = InBands();
  options.retry.max_attempts = 2;
  const auto client = Connect(gate.target(), options);
  const Tensor x;
  const auto result = client->Quantize(x.desc, x.bytes(), Nvfp4());
  ASSERT_THAT(result, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("rows "));
  EXPECT_TRUE(GetRetryHint(result.status()));
}

TEST(BandedCalls, OneOfTwoTakesLessAtATime) {
  const auto a =
      Start({"--max-request-bytes", "64KiB", "--memory-budget", "64MiB"});
  const auto b = Start({});
  const Tensor x;
  const auto got = Connect(a->address() + "," + b->address(), InBands())
                       ->Quantize(x.desc, x.bytes(), Nvfp4());
  ASSERT_THAT(got, IsOk());
  EXPECT_EQ(got->bands(), 9);
  ExpectSame(*Connect(b->address())->Quantize(x.desc, x.bytes(), Nvfp4()),
             *got);
}

Scripted Hang() {
  Scripted s;
  s.hang = true;
  return s;
}

class ScriptedBands : public testing::Test {
 protected:
  std::unique_ptr<Client> Both() {
    return Connect(a_.target() + "," + b_.target(), InBands());
  }
  static QuantizeOptions Given() {
    QuantizeOptions o = Nvfp4();
    o.rowwise_amax = {1.0f};
    return o;
  }
  FakeServer a_;
  FakeServer b_;
  const Tensor x_{8192, 1024};
};

TEST_F(ScriptedBands, GoOverAllConnectionsToAllServers) {
  const auto client = Both();
  // So that both are known to serve.
  for (int i = 0; i < 2000 && (a_.calls() == 0 || b_.calls() == 0); ++i) {
    ASSERT_THAT(client->GetServerInfo(), IsOk());
    std::this_thread::sleep_for(milliseconds(5));
  }
  a_.Script({Hang(), Hang()});
  b_.Script({Hang(), Hang()});
  CallOptions call;
  call.cancel.emplace();
  auto future = client->QuantizeAsync(x_.desc, x_.bytes(), Given(), call);
  a_.WaitForHanging(2);
  b_.WaitForHanging(2);
  const auto start = steady_clock::now();
  call.cancel->Cancel();
  EXPECT_THAT(future.get(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_LT(Seconds(start), kAtOnce);
}

TEST_F(ScriptedBands, MoveFromABusyServer) {
  a_.Script(std::vector<Scripted>(64, Busy(20)));
  const auto result = Both()->Quantize(x_.desc, x_.bytes(), Given());
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->bands(), 16);
  EXPECT_EQ(b_.calls(), 16);
}

TEST_F(ScriptedBands, OneThatFailsForGoodEndsTheOthers) {
  Scripted wrong = Failure(grpc::StatusCode::INTERNAL, "broken");
  wrong.request_id = "the-id";
  a_.Script({Hang(), wrong});
  const auto client = Connect(a_.target(), InBands());
  const auto start = steady_clock::now();
  const auto result = client->Quantize(x_.desc, x_.bytes(), Given());
  ASSERT_THAT(result, StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("rows "));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("broken"));
  EXPECT_EQ(GetRequestId(result.status()), "the-id");
  EXPECT_EQ(a_.calls(), 2);
  EXPECT_LT(Seconds(start), kAtOnce);
}

TEST_F(ScriptedBands, ACancelInTheMiddleOfEitherPass) {
  for (const bool given : {true, false}) {
    a_.Script({{}, {}, {}, Hang()});
    auto client = Connect(a_.target(), InBands());
    CallOptions call;
    call.cancel.emplace();
    QuantizeOptions o = given ? Given() : Nvfp4();
    auto future = client->QuantizeAsync(x_.desc, x_.bytes(), o, call);
    a_.WaitForHanging(given ? 1 : 2);
    call.cancel->Cancel();
    const auto result = future.get();
    ASSERT_THAT(result, StatusIs(absl::StatusCode::kCancelled));
    EXPECT_EQ(result.status().message(), "cancelled by the caller");
  }
  // As the client's end.
  a_.Script({{}, Hang()});
  auto client = Connect(a_.target(), InBands());
  auto future = client->QuantizeAsync(x_.desc, x_.bytes(), Given());
  a_.WaitForHanging(3);
  client.reset();
  EXPECT_THAT(future.get(), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(ScriptedBands, ADeadlineInTheMiddle) {
  a_.Script({{}, {}, {}, Hang(), Hang()});
  const auto client = Connect(a_.target(), InBands());
  CallOptions call;
  call.deadline = milliseconds(500);
  size_t done = 0;
  call.progress = [&](size_t some, size_t) { done = some; };
  const auto start = steady_clock::now();
  const auto result = client->Quantize(x_.desc, x_.bytes(), Given(), call);
  ASSERT_THAT(result, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_LT(Seconds(start), kAtOnce);
  EXPECT_GE(Seconds(start), 0.4);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("rows "));
  EXPECT_GT(done, 0u);
  EXPECT_LT(done, x_.bytes().size());
}

TEST_F(ScriptedBands, AReplyThatIsNotTheBandsIsRefused) {
  Scripted spoiled;
  spoiled.spoil = [](v1::QuantizeReply* reply) {
    reply->mutable_tensors(0)->set_size(1);
  };
  a_.Script({{}, spoiled});
  const auto client = Connect(a_.target(), InBands());
  const auto result = client->Quantize(x_.desc, x_.bytes(), Given());
  ASSERT_THAT(result, StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("rows "));
}

}  // namespace
}  // namespace quantd
