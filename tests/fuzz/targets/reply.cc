// What a server answers a client. The first byte chooses what was asked, those
// behind it where the answer is cut.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "client/error.h"
#include "client/net/replies.h"
#include "client/net/server_status.h"
#include "google/protobuf/stubs/logging.h"
#include "kernels/plan/plan.h"
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

// What is lent of a plan: everything, one region behind the other.
wire::LentRanges AllLent(const Plan& plan) {
  wire::LentRanges lent;
  uint64_t offset = 0;
  for (const TensorSpec& output : plan.outputs()) {
    lent.outputs.push_back({std::string(16, 'r'), offset, output.size});
    offset += (output.size + 255) / 256 * 256;
  }
  return lent;
}

void Read(uint8_t choice, absl::Span<const std::string_view> slices) {
  static const std::vector<Plan> plans = Plans();
  const Plan& plan = plans[choice % plans.size()];
  const bool lends = choice / 16 % 4 == 1;
  const bool into = choice / 16 % 4 == 2;
  // Sizes as the plan says: a reply that brings more would be seen by the
  // address sanitizer.
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

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quantd::fuzz::CheckRefusal;
  static const google::protobuf::LogSilencer quiet;
  quantd::fuzz::Input input(data, size);
  const uint8_t choice = input.Byte();
  const auto slices = input.Pieces();
  if (choice < 0x80) {
    quantd::client::Read(choice, slices);
  } else if (choice < 0xa0) {
    const auto reply = quantd::client::ReadDescription(slices);
    if (!reply.ok()) {
      CheckRefusal(reply.status(), {absl::StatusCode::kInternal});
    }
  } else if (choice < 0xc0) {
    const auto reply = quantd::client::ReadServerInfo(slices);
    if (!reply.ok()) {
      CheckRefusal(reply.status(), {absl::StatusCode::kInternal});
    }
  } else {
    // What a failed call brings beside its code: any code but that of success.
    std::string details;
    for (const std::string_view slice : slices) details += slice;
    const grpc::ClientContext context;
    const auto code = static_cast<grpc::StatusCode>(1 + choice % 16);
    const absl::Status status =
        quantd::client::FromGrpc(grpc::Status(code, "no", details), context);
    quantd::fuzz::Check(!status.ok(), "a failed call is none any more");
    quantd::GetServerError(status);
    quantd::GetRetryHint(status);
    quantd::GetFieldViolation(status);
  }
  return 0;
}
