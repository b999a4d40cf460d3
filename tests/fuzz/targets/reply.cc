// Fuzzes replies of a server to a client. The first byte chooses the request,
// the following ones the cuts of the reply.
#include <string>
#include <utility>
#include <vector>

#include "client/net/replies.h"
#include "client/net/server_status.h"
#include "google/protobuf/stubs/logging.h"
#include "proto/answers.h"
#include "proto/stream/chunks.h"
#include "quantd/error.h"
#include "quantd/plan.h"
#include "tests/fuzz/targets/target.h"

namespace quantd::client {
namespace {

using fuzz::Check;

std::vector<Plan> Plans() {
  const TensorDesc tensor{DType::kF32, {4, 32}};
  std::vector<QuantizeOptions> quantize(5);
  quantize[0].format = Format::kNvfp4;
  quantize[0].usage = Usage::kBoth;
  quantize[1].format = Format::kMxfp8E4M3;
  quantize[1].statistics = true;
  quantize[2].format = Format::kFp8E4M3;
  quantize[2].want_amax = true;
  quantize[2].dbias = true;
  quantize[3].format = Format::kNvfp4;
  quantize[3].rht.rowwise = true;
  quantize[3].rounding = Rounding::kStochastic;
  quantize[4].format = Format::kNvfp4;
  quantize[4].splits = {1, 3};
  std::vector<Plan> plans;
  for (const QuantizeOptions& options : quantize) {
    auto plan = MakeQuantizePlan(tensor, options);
    Check(plan.ok(), plan.status().ToString());
    plans.push_back(*std::move(plan));
  }
  DequantizeOptions decode;
  decode.format = Format::kNvfp4;
  decode.output = DType::kBF16;
  RhtAmaxOptions amax;
  amax.rowwise = amax.columnwise_rht = true;
  for (auto& plan :
       {MakeDequantizePlan(tensor, decode), MakeRhtAmaxPlan(tensor, amax),
        MakeApplyRhtPlan(tensor, {})}) {
    Check(plan.ok(), plan.status().ToString());
    plans.push_back(*plan);
  }
  return plans;
}

// Returns shared ranges for all tensors of a plan, one after another.
wire::LentRanges AllLent(const Plan& plan) {
  wire::LentRanges lent;
  uint64_t offset = 0;
  for (const TensorSpec& output : plan.outputs()) {
    lent.outputs.push_back({std::string(16, 'r'), offset, output.size});
    offset += (output.size + 255) / 256 * 256;
  }
  return lent;
}

// Parses the last message of a stream, or a chunk. Cuts must not change the
// result.
void ReadStream(const Plan& plan, absl::Span<const std::string_view> slices) {
  std::string flat;
  for (const std::string_view slice : slices) flat += slice;
  const std::string_view whole = flat;
  const auto one = wire::ParseStreamReply(absl::MakeSpan(&whole, 1), plan);
  const auto cut = wire::ParseStreamReply(slices, plan);
  Check(one.status() == cut.status(), "a cut changes the error");
  if (!one.ok()) return Check(!one.status().message().empty(), "no message");
  Check(one->chunk.offset == cut->chunk.offset &&
            one->chunk.size == cut->chunk.size &&
            one->chunk.offset <= flat.size() &&
            one->chunk.size <= flat.size() - one->chunk.offset,
        "a chunk outside the message");
  Check(one->reply.has_value() == cut->reply.has_value(),
        "a cut changes whether it is the last message");
}

void Read(uint8_t choice, absl::Span<const std::string_view> slices) {
  static const std::vector<Plan> plans = Plans();
  const Plan& plan = plans[choice % plans.size()];
  const bool lends = choice / 16 % 4 == 1;
  const bool into = choice / 16 % 4 == 2;
  if (choice / 16 % 4 == 3) return ReadStream(plan, slices);
  // Buffers have the plan's sizes, so that the address sanitizer detects a
  // reply that writes more.
  std::vector<std::vector<std::byte>> memory;
  std::vector<Destination> places;
  for (const TensorSpec& output : plan.outputs()) {
    if (!into) break;
    memory.emplace_back(output.size);
    places.push_back({output.kind, absl::MakeSpan(memory.back())});
  }
  const auto result = ReadReply(plan, slices, places,
                                lends ? AllLent(plan) : wire::LentRanges{},
                                Transport::kShared, {.attempts = 1});
  if (!result.ok()) {
    return fuzz::CheckRefusal(
        result.status(),
        {absl::StatusCode::kInternal, absl::StatusCode::kUnimplemented});
  }
  Check(result->parts().size() == plan.outputs().size(), "parts missing");
  for (size_t i = 0; i < plan.outputs().size(); ++i) {
    Check(result->parts()[i].size == plan.outputs()[i].size,
          "a part of another size");
  }
}

}  // namespace
}  // namespace quantd::client

namespace {

// Converts the reply of a method without a payload, if protobuf accepts it.
template <typename Reply>
void Convert(absl::Span<const std::string_view> slices) {
  std::string whole;
  for (const std::string_view slice : slices) whole += slice;
  Reply reply;
  if (reply.ParseFromString(whole)) quantd::wire::FromProto(reply);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const google::protobuf::LogSilencer quiet;
  quantd::fuzz::Input input(data, size);
  const uint8_t choice = input.Byte();
  const auto slices = input.Pieces();
  if (choice < 0x80) {
    quantd::client::Read(choice, slices);
  } else if (choice < 0xa0) {
    Convert<quantd::v1::DescribeQuantizeReply>(slices);
  } else if (choice < 0xc0) {
    Convert<quantd::v1::GetServerInfoReply>(slices);
  } else {
    // Parses the details of a failed call, with every code except OK.
    std::string details;
    for (const std::string_view slice : slices) details += slice;
    const grpc::ClientContext context;
    const auto code = static_cast<grpc::StatusCode>(1 + choice % 16);
    const absl::Status status =
        quantd::client::FromGrpc(grpc::Status(code, "no", details), context);
    quantd::fuzz::Check(!status.ok(), "a failed call became OK");
    quantd::GetServerError(status);
    quantd::GetRetryHint(status);
    quantd::GetFieldViolation(status);
  }
  return 0;
}
