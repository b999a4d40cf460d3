// Tests of shards that are sent once, with threads as ranks.
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/plan/shards.h"
#include "quantd/distributed.h"
#include "tests/client/shards/shards.h"

namespace quantd {
namespace {

// An all-reduce among threads, one for each rank.
class Ranks {
 public:
  explicit Ranks(size_t count) : barrier_(static_cast<std::ptrdiff_t>(count)) {}
  CopyAmax Reduce(const CopyAmax& own) {
    {
      const std::lock_guard lock(mutex_);
      if (all_.rowwise.empty() && all_.columnwise.empty()) all_ = own;
      Raise(absl::MakeSpan(all_.rowwise), 0, own.rowwise);
      Raise(absl::MakeSpan(all_.columnwise), 0, own.columnwise);
    }
    barrier_.arrive_and_wait();
    return all_;
  }

 private:
  std::barrier<> barrier_;
  std::mutex mutex_;
  CopyAmax all_;
};

class ShardSessions : public Distributed {};

TEST_F(ShardSessions, SendEachShardOnce) {
  const Whole whole({192, 256});
  std::vector<QuantizeOptions> all(5, Of(Format::kNvfp4));
  all[1].rht = {true, true, 16, std::nullopt};
  all[1].rounding = Rounding::kStochastic;
  all[1].stochastic.seed = 5;
  all[2].rht.columnwise = true;
  all[2].nvfp4.amax_estimation_scale = 2.0f;
  all[3] = Of(Format::kFp8E4M3);
  all[4] = Of(Format::kMxfp8E4M3);  // it has no amax to reduce
  for (const QuantizeOptions& o : all) {
    const auto expected = clients_[0]->Quantize(whole.desc, whole.bytes(), o);
    ASSERT_THAT(expected, IsOk());
    std::vector<Piece> pieces;
    for (const int64_t row : {0, 64, 128}) {
      pieces.emplace_back(whole, row, 64, 0, 256);
    }
    pieces.emplace_back(whole, 192, 0, 0, 256);  // an empty shard
    Ranks ranks(pieces.size());
    std::vector<absl::StatusOr<Result>> parts(pieces.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < pieces.size(); ++i) {
      threads.emplace_back([&, i] {
        auto session = ShardSession::Begin(*clients_[i % kServers], whole.desc,
                                           pieces[i].shard, o);
        if (!session.ok()) {
          ADD_FAILURE() << session.status();
          std::abort();  // the others wait
        }
        const auto maxima = session->Maxima();
        const CopyAmax reduced = ranks.Reduce(maxima.value_or(CopyAmax()));
        parts[i] = session->Finish(reduced);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < pieces.size(); ++i) {
      ASSERT_THAT(parts[i], IsOk());
      if (pieces[i].shard.rows == 0) continue;
      ExpectPart(whole, o, *expected, pieces[i].shard, *parts[i]);
      EXPECT_EQ(parts[i]->attempts(), 1);
      EXPECT_EQ(parts[i]->streamed(), o.format != Format::kMxfp8E4M3);
    }
  }
}

TEST_F(ShardSessions, EndWithTypedErrors) {
  const Whole whole({128, 64});
  const QuantizeOptions o = Of(Format::kNvfp4);
  const Piece piece(whole, 0, 64, 0, 64);
  const auto begin = [&](const QuantizeOptions& options,
                         const CallOptions& call = {}) {
    return ShardSession::Begin(*clients_[0], whole.desc, piece.shard, options,
                               call);
  };
  // Abandons sessions, before and after the amaxes have arrived.
  { ASSERT_THAT(begin(o), IsOk()); }
  {
    auto session = begin(o);
    ASSERT_THAT(session, IsOk());
    ASSERT_THAT(session->Maxima(), IsOk());
  }
  // Finishes with impossible amaxes, and finishes a session twice.
  auto session = begin(o);
  ASSERT_THAT(session, IsOk());
  const auto maxima = session->Maxima();
  ASSERT_THAT(maxima, IsOk());
  EXPECT_EQ(FieldOf(session->Finish({{1, 2}, {1}}).status()),
            "reduced_amax.rowwise");
  EXPECT_THAT(session->Finish(*maxima),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  session = begin(o);
  EXPECT_EQ(FieldOf(session->Finish({{1}, {-1}}).status()),
            "reduced_amax.columnwise");
  // The error for NaN arrives in place of the amaxes.
  QuantizeOptions reject = o;
  reject.non_finite = NonFinite::kReject;
  Piece spoiled(whole, 0, 64, 0, 64);
  spoiled.values[5] = NAN;
  session =
      ShardSession::Begin(*clients_[0], whole.desc, spoiled.shard, reject);
  ASSERT_THAT(session, IsOk());
  EXPECT_EQ(FieldOf(session->Maxima().status()), "payload");
  EXPECT_EQ(FieldOf(session->Finish({{1}, {1}}).status()), "payload");
  // A deadline and a cancellation while the session waits for the other ranks.
  CallOptions call;
  call.deadline = std::chrono::milliseconds(300);
  session = begin(o, call);
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT(session->Maxima(), IsOk());
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_THAT(session->Finish(*maxima),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  call = {};
  call.cancel.emplace();
  session = begin(o, call);
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT(session->Maxima(), IsOk());
  call.cancel->Cancel();
  EXPECT_THAT(session->Finish(*maxima), StatusIs(absl::StatusCode::kCancelled));
  QuantizeOptions given = o;
  given.rowwise_amax = {1};
  EXPECT_EQ(FieldOf(begin(given).status()), "given_amax");
}

// A shard that its own codes overwrite is sent twice, each time in one message.
TEST_F(ShardSessions, WriteOverTheirInput) {
  const Whole whole({128, 64});
  const QuantizeOptions o = Of(Format::kNvfp4);
  const Piece piece(whole, 0, 64, 0, 64);
  auto amax = ShardAmax(*clients_[0], whole.desc, piece.shard, o);
  ASSERT_THAT(amax, IsOk());
  const auto expected =
      QuantizeShard(*clients_[0], whole.desc, piece.shard, o, *amax);
  ASSERT_THAT(expected, IsOk());
  Piece spent(whole, 0, 64, 0, 64);
  const auto codes = expected->bytes(TensorKind::kRowwiseData);
  CallOptions call;
  call.into = {
      {TensorKind::kRowwiseData,
       {reinterpret_cast<std::byte*>(spent.values.data()), codes.size()}}};
  auto session =
      ShardSession::Begin(*clients_[0], whole.desc, spent.shard, o, call);
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT(session->Maxima(), IsOk());
  const auto part = session->Finish(*amax);
  ASSERT_THAT(part, IsOk());
  EXPECT_FALSE(part->streamed());
  EXPECT_TRUE(BytesEq("codes", codes, part->bytes(TensorKind::kRowwiseData)));
}

// The server ends the stream before the other ranks arrive, so the shard is
// sent again.
TEST_F(ShardSessions, ResendAfterTheStreamEnds) {
  ServerProcess hasty({bench::FindQuantd(), "--listen", "127.0.0.1:0",
                       "--device", "cpu:0", "--max-receive-ms", "300"});
  ASSERT_TRUE(hasty.running()) << hasty.Log();
  const auto client = Connect(hasty.address());
  const Whole whole({128, 64});
  const QuantizeOptions o = Of(Format::kNvfp4);
  const Piece piece(whole, 0, 64, 0, 64);
  auto session = ShardSession::Begin(*client, whole.desc, piece.shard, o);
  ASSERT_THAT(session, IsOk());
  const auto maxima = session->Maxima();
  ASSERT_THAT(maxima, IsOk());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const auto part = session->Finish(*maxima);
  ASSERT_THAT(part, IsOk());
  const auto expected =
      QuantizeShard(*client, whole.desc, piece.shard, o, *maxima);
  ASSERT_THAT(expected, IsOk());
  ExpectSameParts(*expected, *part);
}

}  // namespace
}  // namespace quantd
