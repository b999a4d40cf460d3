// Tests that a payload in chunks is gathered like one in a single message, for
// all requests and chunk sizes.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "proto/messages.h"
#include "proto/stream/chunks.h"
#include "quantd/field_error.h"
#include "tests/kernels/device/plan_rows.h"
#include "tests/testing/matchers.h"

namespace quantd::wire {
namespace {

std::string Pattern(size_t n, uint32_t seed) {
  std::string bytes(n, '\0');
  for (size_t i = 0; i < n; ++i) {
    bytes[i] = static_cast<char>((i * 2654435761u + seed) >> 13);
  }
  return bytes;
}

absl::Span<std::byte> Writable(std::string& bytes) {
  return {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
}

class Rows : public testing::Test {
 protected:
  void ExpectSame(const Plan& plan) {
    if (plan.input_bytes() > (size_t{1} << 20)) return;
    const uint32_t seed = count_;
    size_t size = 0;
    for (const TensorSpec& input : plan.inputs()) size += input.size;
    const std::string payload = Pattern(size, seed);
    const auto head = RequestHead(plan, size);
    const auto start = StreamHead(plan, size);
    ASSERT_THAT(head, IsOk());
    ASSERT_THAT(start, IsOk());
    const std::string message = *head + payload;
    const std::string_view whole[] = {message};
    const std::string_view first[] = {*start};
    const auto unary = ParseRequest(MethodOf(plan), whole);
    const auto streamed = ParseStreamStart(first);
    ASSERT_EQ(streamed.status(), unary.status());
    if (!unary.ok()) return;
    EXPECT_EQ(streamed->payload_bytes, size);
    EXPECT_EQ(ReplyHead(*streamed->request.plan, {}, "", ""),
              ReplyHead(*unary->plan, {}, "", ""));
    std::string expected(plan.input_bytes(), '\xaa');
    Gather(*unary, whole, Writable(expected));

    std::mt19937 random(seed);
    std::string staging(plan.input_bytes(), '\x55');
    StreamGather gather(streamed->request, Writable(staging));
    size_t settled = gather.settled();
    while (gather.came() < size) {
      const size_t most = random() % 3 == 0 ? 5 : size / 3 + 1;
      const size_t n =
          std::min<size_t>(size - gather.came(), 1 + random() % most);
      const std::string chunk =
          ChunkPrefix(n) + payload.substr(gather.came(), n);
      const size_t cut = random() % chunk.size();
      const std::string_view pieces[] = {std::string_view(chunk).substr(0, cut),
                                         std::string_view(chunk).substr(cut)};
      const auto range = ParseChunk(pieces);
      ASSERT_THAT(range, IsOk());
      ASSERT_THAT(CheckChunk(gather.came(), range->size, size), IsOk());
      gather.Add(pieces, *range);
      ASSERT_GE(gather.settled(), settled);
      settled = gather.settled();
      ASSERT_EQ(staging.substr(0, settled), expected.substr(0, settled));
    }
    EXPECT_THAT(CheckWhole(gather.came(), size), IsOk());
    EXPECT_EQ(gather.settled(), plan.input_bytes());
    EXPECT_EQ(staging, expected);
    ++count_;
  }
  uint32_t count_ = 0;
};

TEST_F(Rows, ChunksGiveTheBytesOfOneMessage) {
  ForQuantizeRows(1, [&](const QuantizeRow& row) {
    SCOPED_TRACE(row.settings);
    if (!HasFatalFailure()) ExpectSame(row.plan);
  });
  const auto each = [&](const PlanRow& row) {
    SCOPED_TRACE(row.format + " " + row.settings);
    if (!HasFatalFailure()) ExpectSame(row.plan);
  };
  ForDequantizeRows(each);
  ForRhtAmaxRows(each);
  ForApplyRhtRows(each);
  EXPECT_GT(count_, 600u);
}

TEST(Streams, AnAmaxFieldIsNotPartOfTheChunks) {
  const auto plan =
      MakeDequantizePlan({DType::kBF16, {4, 32}},
                         {.format = Format::kNvfp4, .output = DType::kF32});
  ASSERT_THAT(plan, IsOk());
  const std::string payload = Pattern(64 + 512, 1);
  const auto start = StreamHead(*plan, payload.size(), 3.5f);
  ASSERT_THAT(start, IsOk());
  const std::string_view first[] = {*start};
  const auto streamed = ParseStreamStart(first);
  ASSERT_THAT(streamed, IsOk());
  std::string staging(plan->input_bytes(), '\x55');
  StreamGather gather(streamed->request, Writable(staging));
  const std::string chunk = ChunkPrefix(payload.size()) + payload;
  const std::string_view pieces[] = {chunk};
  gather.Add(pieces, *ParseChunk(pieces));
  const float amax = 3.5f;
  const std::string field(reinterpret_cast<const char*>(&amax), sizeof amax);
  EXPECT_EQ(staging.substr(plan->inputs()[2].offset, sizeof amax), field);
  EXPECT_EQ(gather.settled(), staging.size());
}

TEST(Streams, LastMessageIsTheReplyWithoutItsPayload) {
  const auto plan =
      MakeQuantizePlan({DType::kBF16, {4, 32}}, {.format = Format::kNvfp4});
  ASSERT_THAT(plan, IsOk());
  const std::string last = StreamReplyHead(*plan, {}, "cpu:0", "id");
  const std::string_view pieces[] = {last};
  const auto part = ParseStreamReply(pieces, *plan);
  ASSERT_THAT(part, IsOk());
  ASSERT_TRUE(part->reply.has_value());
  EXPECT_EQ(part->chunk.size, 0u);
  EXPECT_EQ(part->reply->device, "cpu:0");
  ASSERT_EQ(part->reply->tensors.size(), plan->outputs().size());
  for (size_t i = 0; i < plan->outputs().size(); ++i) {
    EXPECT_EQ(part->reply->tensors[i].offset, plan->outputs()[i].offset);
  }
  // The reply to another request does not echo the requested options.
  const auto other = MakeApplyRhtPlan({DType::kBF16, {4, 32}}, {});
  EXPECT_EQ(ParseStreamReply(pieces, *other).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(Streams, MaximaAndReducedAmaxRoundTrip) {
  const auto plan = MakeQuantizePlan(
      {DType::kBF16, {4, 32}},
      {.format = Format::kNvfp4, .form = {.row_scaled = true}});
  ASSERT_THAT(plan, IsOk());
  const auto head = ReducingHead(*plan, plan->input_bytes());
  ASSERT_THAT(head, IsOk());
  const std::string_view first[] = {*head};
  const auto start = ParseStreamStart(first);
  ASSERT_THAT(start, IsOk());
  EXPECT_TRUE(start->reduces);
  EXPECT_EQ(ReplyHead(*start->request.plan, {}, "", ""),
            ReplyHead(*plan, {}, "", ""));

  const FoundMaxima found = {{{1, 2, 3, 4}, {}}, true, false};
  const std::string message = MaximaReply(found);
  const std::string_view pieces[] = {message};
  const auto part = ParseStreamReply(pieces, *plan);
  ASSERT_THAT(part, IsOk());
  ASSERT_TRUE(part->maxima.has_value());
  EXPECT_FALSE(part->reply.has_value());
  EXPECT_EQ(part->maxima->amax.rowwise, found.amax.rowwise);
  EXPECT_TRUE(part->maxima->amax.columnwise.empty());
  EXPECT_TRUE(part->maxima->saw_nan);
  EXPECT_FALSE(part->maxima->saw_inf);

  const std::string answer = ReducedAmax(found.amax);
  for (size_t cut = 0; cut <= answer.size(); ++cut) {
    const std::string_view whole = answer;
    const std::string_view both[] = {whole.substr(0, cut), whole.substr(cut)};
    const auto reduced = ParseReducedAmax(both);
    ASSERT_THAT(reduced, IsOk());
    EXPECT_EQ(reduced->rowwise, found.amax.rowwise);
    // A reduced amax is neither a chunk nor a first message.
    EXPECT_EQ(GetFieldViolation(ParseChunk(both).status())->field,
              "reduced_amax");
    EXPECT_EQ(GetFieldViolation(ParseStreamStart(both).status())->field,
              "reduced_amax");
  }
  // The largest number of values is accepted, but not twice as many.
  CopyAmax most;
  most.rowwise.resize(kMostReduced, 1);
  const std::string large = ReducedAmax(most);
  const std::string_view as_packed[] = {large};
  EXPECT_THAT(ParseReducedAmax(as_packed), IsOk());
  const std::string more = large + large;
  const std::string_view too_much[] = {more};
  EXPECT_FALSE(ParseReducedAmax(too_much).ok());
}

// The request has the largest number of groups.
TEST(Streams, CountsLongLists) {
  std::vector<int64_t> rows(16384, 16);
  QuantizeOptions options;
  options.format = Format::kFp8E4M3;
  options.splits = {rows};
  const TensorDesc desc = {DType::kBF16, {int64_t{16} * 16384, 16}};
  const auto plan = MakeQuantizePlan(desc, options);
  ASSERT_THAT(plan, IsOk());
  const auto start = StreamHead(*plan, plan->input_bytes());
  ASSERT_THAT(start, IsOk());
  const std::string_view first[] = {*start};
  const auto separated = SeparateRequest(Method::kStream, first);
  ASSERT_THAT(separated, IsOk());
  EXPECT_GE(separated->list_bytes, rows.size());
  EXPECT_THAT(ParseStreamStart(first), IsOk());
  // Fields nested more deeply than any legal list do not count as lists.
  v1::StreamRequest fields;
  for (int i = 0; i < 200'000; ++i) {
    fields.mutable_dequantize()->add_tensors()->set_size(1);
  }
  const std::string bytes = fields.SerializeAsString();
  const std::string_view many[] = {bytes};
  const auto refused = ParseStreamStart(many);
  EXPECT_EQ(GetSizeLimit(refused.status()), kMaxHeadBytes);
}

}  // namespace
}  // namespace quantd::wire
