// Fuzzes replies of a server to a client. The first byte chooses the request,
// the following ones the cuts of the reply.
#include <string>
#include <vector>

#include "client/net/replies.h"
#include "client/net/server_status.h"
#include "google/protobuf/stubs/logging.h"
#include "proto/answers.h"
#include "proto/stream/chunks.h"
#include "quantd/error.h"
#include "quantd/plan.h"
#include "tests/fuzz/targets/reply_plans.h"
#include "tests/fuzz/targets/target.h"

namespace quantd::client {
namespace {

using fuzz::Check;

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
  static const std::vector<Plan> plans = fuzz::Plans();
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
  const auto result = ReadReply(
      plan, slices, places, lends ? fuzz::AllLent(plan) : wire::LentRanges{},
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
