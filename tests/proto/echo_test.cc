// Tests that a reply echoes every field of its request.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/text_format.h"
#include "proto/messages.h"
#include "tests/kernels/device/plan_rows.h"
#include "tests/proto/requests.h"

namespace quantd::wire {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Returns the text form of `field` alone.
std::string TextOf(const Message& message, const FieldDescriptor* field) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  const auto* reflection = message.GetReflection();
  if (!field->is_repeated()) {
    printer.PrintFieldValueToString(message, field, -1, &text);
    return text;
  }
  for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
    std::string one;
    printer.PrintFieldValueToString(message, field, i, &one);
    text += one + " ";
  }
  return text;
}

// Expects that every field set in `said` has the same value in the field of the
// same name in `echo`. Adds their names to `seen`.
void ExpectEcho(const Message& said, const Message& echo,
                const std::set<std::string>& silent,
                std::set<std::string>* seen) {
  std::vector<const FieldDescriptor*> fields;
  said.GetReflection()->ListFields(said, &fields);
  for (const FieldDescriptor* field : fields) {
    if (silent.count(field->name()) || silent.count(field->full_name())) {
      continue;
    }
    SCOPED_TRACE(field->full_name());
    seen->insert(field->full_name());
    const auto* there = echo.GetDescriptor()->FindFieldByName(field->name());
    ASSERT_NE(there, nullptr);
    if (field->type() == FieldDescriptor::TYPE_MESSAGE) {
      ASSERT_TRUE(echo.GetReflection()->HasField(echo, there));
      ExpectEcho(said.GetReflection()->GetMessage(said, field),
                 echo.GetReflection()->GetMessage(echo, there), silent, seen);
    } else {
      EXPECT_EQ(TextOf(echo, there), TextOf(said, field));
    }
  }
}

// Adds the names of all fields of a message and its submessages, except those
// in `silent`.
void AllFields(const Descriptor* type, const std::set<std::string>& silent,
               std::set<std::string>* all) {
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    if (silent.count(field->name()) || silent.count(field->full_name())) {
      continue;
    }
    all->insert(field->full_name());
    if (field->type() == FieldDescriptor::TYPE_MESSAGE) {
      AllFields(field->message_type(), silent, all);
    }
  }
}

// Expects that the server reads the client's message as the same plan, and that
// the client reads the reply's echo as the same options.
void ExpectClientAgrees(const Plan& plan, std::string_view input,
                        std::string_view reply_head, std::string_view payload) {
  const Method method = MethodOf(plan);
  const auto head = RequestHead(plan, input.size());
  ASSERT_THAT(head, IsOk());
  const auto again =
      ParseRequest(method, std::vector<std::string_view>{*head, input});
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(ReplyHead(*again->plan, {}, "cpu:0", "id"), reply_head);
  const auto read = ParseReply(
      method, std::vector<std::string_view>{reply_head, payload}, &plan);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->payload.offset, reply_head.size());
  EXPECT_EQ(read->payload.size, payload.size());
  EXPECT_EQ(read->device, "cpu:0");
  EXPECT_EQ(read->request_id, "id");
  ASSERT_EQ(read->tensors.size(), plan.outputs().size());
  for (size_t i = 0; i < read->tensors.size(); ++i) {
    EXPECT_EQ(ToProto(read->tensors[i]).SerializeAsString(),
              ToProto(plan.outputs()[i]).SerializeAsString());
  }
}

// Expects that the client detects any option that the reply does not echo,
// since an older server may ignore it.
template <typename Reply>
void ExpectDroppedOptionsAreNamed(const Plan& plan, const Reply& reply) {
  std::vector<const FieldDescriptor*> fields;
  const auto* reflection = reply.options().GetReflection();
  reflection->ListFields(reply.options(), &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->message_type() != nullptr && !field->is_repeated() &&
        reflection->GetMessage(reply.options(), field).ByteSizeLong() == 0) {
      continue;
    }
    Reply older = reply;
    reflection->ClearField(older.mutable_options(), field);
    const std::string message = older.SerializeAsString();
    const auto read = ParseReply(MethodOf(plan),
                                 std::vector<std::string_view>{message}, &plan);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(read.status().message(), testing::HasSubstr(field->name()));
  }
}

template <typename Req, typename Reply>
void ExpectEchoes(const std::vector<std::string>& texts,
                  const std::set<std::string>& silent) {
  std::set<std::string> seen;
  for (const std::string& text : texts) {
    SCOPED_TRACE(text);
    Req request;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request));
    // The error for the empty payload states the required size.
    const auto violation = GetFieldViolation(Parse(request).status());
    ASSERT_TRUE(violation.has_value() && violation->field == "payload")
        << Parse(request).status();
    request.set_payload(Bytes(std::stoul(violation->expected)));
    const auto parsed = Parse(request);
    ASSERT_THAT(parsed, IsOk());
    const std::string payload(parsed->plan->output_bytes(), 'p');
    const std::string head = ReplyHead(*parsed->plan, {}, "cpu:0", "id");
    Reply reply;
    ASSERT_TRUE(reply.ParseFromString(head + payload));
    ExpectEcho(request, reply, silent, &seen);
    ExpectClientAgrees(*parsed->plan, request.payload(), head, payload);
    ExpectDroppedOptionsAreNamed(*parsed->plan, reply);
  }
  std::set<std::string> all;
  AllFields(Req::descriptor(), silent, &all);
  EXPECT_EQ(seen, all);
}

// Requests with one option each, as the client writes them.
std::vector<std::string> OptionsAlone() {
  std::vector<std::string> texts;
  std::set<std::string> settings;
  ForQuantizeRows(1, [&](const QuantizeRow& row) {
    const auto& options = std::get<QuantizeOptions>(row.plan.options());
    // A server refuses shards that are cut inside a block.
    if (row.plan.input_bytes() > (1 << 20) || options.shard.column_offset > 0 ||
        !settings.insert(row.settings).second) {
      return;
    }
    v1::QuantizeRequest request;
    *request.mutable_tensor() = TensorOf(row.plan);
    *request.mutable_options() = ToProto(options);
    texts.push_back(request.ShortDebugString());
  });
  return texts;
}

TEST(Echo, QuantizeRepliesEchoEveryField) {
  const std::string tensor =
      "tensor {dtype: DTYPE_F16 shape: 2 shape: 4 shape: 32 flatten_axis: 2} ";
  std::vector<std::string> texts = {
      tensor + R"(options {
            format: FORMAT_NVFP4 usage: USAGE_BOTH non_finite:
            NON_FINITE_PROPAGATE rht {rowwise: true columnwise: true
            dimension: 32 sign_mask: "abcd"} amax_estimation_scale: 2
            rounding: ROUNDING_STOCHASTIC stochastic {seed: 18446744073709551615
            seed_offset: 9} shard {row_offset: 64 column_offset: 32 total_columns:
            99} form {scale_layout: LAYOUT_SWIZZLED} statistics: true
            given_amax {rowwise: 0.5}})",
      tensor + R"(options {
            format: FORMAT_NVFP4_2D usage: USAGE_COLUMNWISE four_over_six:
            FOUR_OVER_SIX_MSE fast_error: true form {compact_scales: true
            scale_256: true} dbias: true dbias_dtype: DTYPE_F32 amax: true
            given_amax {columnwise: 1.5}})",
      tensor + R"(options {
            format: FORMAT_NVFP4 form {row_scaled: true} splits {rows: 3 rows: 0
            rows: 5} given_amax {rowwise_values: 1 rowwise_values: 2
            rowwise_values: 3 rowwise_values: 4 rowwise_values: 5
            rowwise_values: 6 rowwise_values: 7 rowwise_values: 8}})",
      tensor + R"(options {
            format: FORMAT_NVFP4 splits {rows: 3 rows: 4 partial: true} given_amax
            {columnwise_values: 1 columnwise_values: 2}})",
      tensor + R"(options {
            format: FORMAT_FP8_E5M2 usage: USAGE_NONE amax: true scale: 7
            history {amax: 1 amax: nan amax:
            inf rule: HISTORY_RULE_MOST_RECENT margin: -4}})",
  };
  for (std::string& text : OptionsAlone()) texts.push_back(std::move(text));
  ExpectEchoes<v1::QuantizeRequest, v1::QuantizeReply>(texts,
                                                       {"payload", "memory"});
}

TEST(Echo, RepliesOfOtherMethodsEchoEveryField) {
  const std::string tensor =
      "tensor {dtype: DTYPE_F16 shape: 2 shape: 4 shape: 32 flatten_axis: 2} ";
  // These fields are not echoed: ranges of bytes, types that codes do not keep,
  // and options that another test sets.
  ExpectEchoes<v1::DequantizeRequest, v1::DequantizeReply>(
      {
          R"(tensor {shape: 64 shape: 64 flatten_axis: 1}
            options {format: FORMAT_MXFP4 usage: USAGE_COLUMNWISE output: DTYPE_F32
            inverse_rht {dimension: 64 sign_mask: "abcdefgh"}
            form {scale_layout: LAYOUT_SWIZZLED} splits {rows: 60 rows: 3
            partial: true}})",
          R"(tensor {shape: 64 shape: 64 flatten_axis: 1}
            options {format: FORMAT_NVFP4_2D usage: USAGE_ROWWISE output: DTYPE_BF16
            form {compact_scales: true scale_256: true}})",
          R"(tensor {shape: 64 shape: 64 flatten_axis: 1}
            options {format: FORMAT_NVFP4 usage: USAGE_ROWWISE output: DTYPE_BF16
            form {row_scaled: true}})",
          R"(tensor {shape: 64 shape: 64 flatten_axis: 1}
            options {format: FORMAT_NVFP4 usage: USAGE_ROWWISE output: DTYPE_BF16
            inverse_rht {dimension: 16}})",
          R"(tensor {shape: 60 shape: 64 flatten_axis: 1}
            options {format: FORMAT_NVFP4 usage: USAGE_COLUMNWISE output: DTYPE_BF16
            rotated_dimension: 32})",
          R"(tensor {shape: 60 shape: 64 flatten_axis: 1}
            options {format: FORMAT_NVFP4 usage: USAGE_ROWWISE output: DTYPE_BF16
            profile: PROFILE_COMFY_0_2_40_CUDA})",
      },
      {"payload", "memory", "tensors", "amax", "dtype", "quantd.v1.Rht.rowwise",
       "quantd.v1.Rht.columnwise"});
  ExpectEchoes<v1::RhtAmaxRequest, v1::RhtAmaxReply>(
      {tensor + R"(options {
        rowwise: true rowwise_rht: true columnwise: true columnwise_rht: true
        rht {dimension: 32 sign_mask: "abcd"} domain: AMAX_DOMAIN_ROW
        non_finite: NON_FINITE_PROPAGATE splits {rows: 8 partial: true}})"},
      {"payload", "memory", "quantd.v1.Rht.rowwise",
       "quantd.v1.Rht.columnwise"});
  ExpectEchoes<v1::ApplyRhtRequest, v1::ApplyRhtReply>(
      {tensor + R"(options {
        inverse: true output: DTYPE_F32
        rht {dimension: 32 sign_mask: "abcd"}})"},
      {"payload", "memory", "quantd.v1.Rht.rowwise",
       "quantd.v1.Rht.columnwise"});
}

// Returns the plan of a legal message.
std::shared_ptr<const Plan> PlanOf(const v1::QuantizeRequest& m) {
  const auto request = Parse(m);
  EXPECT_THAT(request, IsOk());
  return request.ok() ? request->plan : nullptr;
}

TEST(Echo, EchoesSeedsOnlyForStochasticRounding) {
  const v1::QuantizeRequest m = Quantize();
  v1::QuantizeReply reply;
  ASSERT_TRUE(
      reply.ParseFromString(ReplyHead(*PlanOf(m), {}, "", "") +
                            std::string(PlanOf(m)->output_bytes(), 'p')));
  EXPECT_FALSE(reply.options().has_stochastic());
  EXPECT_FALSE(reply.options().has_shard());
  EXPECT_FALSE(reply.options().has_power_of_two());
  EXPECT_FALSE(reply.options().has_splits());
  EXPECT_EQ(reply.options().form().scale_layout(), v1::LAYOUT_LINEAR);
}

// One amax serves both directions, and the echo has it in the request's field.
TEST(Echo, KeepsTheFieldOfAGivenAmax) {
  v1::QuantizeRequest m = Quantize();
  m.mutable_options()->set_usage(v1::USAGE_BOTH);
  m.mutable_options()->mutable_given_amax()->set_columnwise(0);
  v1::QuantizeReply reply;
  ASSERT_TRUE(
      reply.ParseFromString(ReplyHead(*PlanOf(m), {}, "", "") +
                            std::string(PlanOf(m)->output_bytes(), 'p')));
  EXPECT_FALSE(reply.options().given_amax().has_rowwise());
  EXPECT_TRUE(reply.options().given_amax().has_columnwise());
  EXPECT_FALSE(reply.options().has_rht());
}

TEST(Echo, ReportHasTheStatisticsOfTheJob) {
  JobReport job;
  job.saw_nan = true;
  job.replaced_globals = 7;
  job.columnwise = ErrorStatistics{5, 4, 3, 2.5f, 100, 1};
  const v1::QuantizeRequest m = Quantize();
  v1::QuantizeReply reply;
  ASSERT_TRUE(
      reply.ParseFromString(ReplyHead(*PlanOf(m), job, "", "") +
                            std::string(PlanOf(m)->output_bytes(), 'p')));
  EXPECT_TRUE(reply.report().saw_nan());
  EXPECT_FALSE(reply.report().saw_inf());
  EXPECT_EQ(reply.report().replaced_globals(), 7);
  EXPECT_FALSE(reply.report().has_rowwise());
  ASSERT_TRUE(reply.report().has_columnwise());
  const v1::ErrorStatistics& s = reply.report().columnwise();
  EXPECT_EQ(s.elements(), 5u);
  EXPECT_EQ(s.clipped(), 4u);
  EXPECT_EQ(s.flushed(), 3u);
  EXPECT_EQ(s.max_error(), 2.5f);
  EXPECT_EQ(s.signal(), 100);
  EXPECT_EQ(s.noise(), 1);
  EXPECT_EQ(s.sqnr_db(), 20);
  // Reads the report as the client does.
  const JobReport read = FromProto(reply.report());
  EXPECT_TRUE(read.saw_nan);
  EXPECT_FALSE(read.saw_inf);
  EXPECT_FALSE(read.rowwise.has_value());
  ASSERT_TRUE(read.columnwise.has_value());
  EXPECT_EQ(ToProto(read, "").SerializeAsString(),
            ToProto(job, "").SerializeAsString());
}

TEST(Describe, DescribesTheReplyOfQuantize) {
  v1::QuantizeRequest m = Quantize();
  m.mutable_options()->set_usage(v1::USAGE_BOTH);
  m.mutable_options()->set_dbias(true);
  m.mutable_options()->mutable_splits()->add_rows(1);
  m.mutable_options()->mutable_splits()->add_rows(3);
  v1::QuantizeReply reply;
  const auto plan = PlanOf(m);
  ASSERT_TRUE(reply.ParseFromString(ReplyHead(*plan, {}, "", "") +
                                    std::string(plan->output_bytes(), 'p')));
  // Describes requests with a payload, without one, and with one of a wrong
  // size.
  for (const std::string& payload :
       {m.payload(), std::string(), std::string("abc")}) {
    m.set_payload(payload);
    const std::string bytes = m.SerializeAsString();
    const std::string_view whole = bytes;
    const auto described = ParseDescribeRequest(absl::MakeSpan(&whole, 1));
    ASSERT_THAT(described, IsOk());
    v1::DescribeQuantizeReply description;
    ASSERT_TRUE(description.ParseFromString(DescribeReply(**described, "id")));
    EXPECT_EQ(description.request_id(), "id");
    EXPECT_EQ(description.input_bytes(), 256u);
    EXPECT_EQ(description.output_bytes(), reply.payload().size());
    EXPECT_EQ(description.scratch_bytes(), 2u * 32 * 4);
    ASSERT_EQ(description.tensors_size(), 7);
    for (int i = 0; i < 7; ++i) {
      EXPECT_EQ(description.tensors(i).SerializeAsString(),
                reply.tensors(i).SerializeAsString());
    }
    EXPECT_EQ(reply.tensors(1).group_offsets_size(), 3);
    EXPECT_EQ(reply.tensors(1).group_offsets(1), 512u);
  }
}

TEST(Describe, GivesTheErrorsOfQuantize) {
  v1::QuantizeRequest m = Quantize();
  m.mutable_options()->set_format(v1::FORMAT_MXFP4);
  m.mutable_options()->set_four_over_six(v1::FOUR_OVER_SIX_MAE);
  const std::string bytes = m.SerializeAsString();
  const std::string_view whole = bytes;
  EXPECT_EQ(ParseDescribeRequest(absl::MakeSpan(&whole, 1)).status(),
            Parse(m).status());
  EXPECT_FALSE(Parse(m).ok());
  const std::string_view nonsense = "\xff";
  EXPECT_TRUE(
      IsMalformed(ParseDescribeRequest(absl::MakeSpan(&nonsense, 1)).status()));
}

// The largest head of a reply to a legal request fits the limit for replies.
TEST(Describe, LargestReplyHeadFits) {
  v1::QuantizeRequest m = Quantize();
  m.mutable_tensor()->set_shape(0, kMaxGroups);
  m.mutable_tensor()->set_shape(1, 16384);  // offsets have up to 29 bits
  m.mutable_options()->set_format(v1::FORMAT_FP8_E4M3);
  m.mutable_options()->set_usage(v1::USAGE_BOTH);
  for (size_t i = 0; i < kMaxGroups; ++i)
    m.mutable_options()->mutable_splits()->add_rows(1);
  // Requests all outputs.
  m.mutable_options()->set_amax(true);
  m.mutable_options()->set_dbias(true);
  m.mutable_options()->mutable_scale()->Resize(kMaxGroups, 1);
  m.mutable_options()->mutable_history()->mutable_amax()->Resize(kMaxGroups, 1);
  m.clear_payload();
  const std::string bytes = m.SerializeAsString();
  const std::string_view whole = bytes;
  const auto plan = ParseDescribeRequest(absl::MakeSpan(&whole, 1));
  ASSERT_THAT(plan, IsOk());
  const size_t head = ReplyHead(**plan, {}, "device", "id").size();
  EXPECT_GT(head, kMaxHeadBytes);
  // The rest of the echo has at most twice the size of the request's head,
  // because one given amax may be echoed for both directions.
  EXPECT_LT(head + 2 * (kMaxHeadBytes + kMaxListBytes), kMaxReplyHeadBytes);
}

}  // namespace
}  // namespace quantd::wire
