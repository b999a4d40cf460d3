#include "client/python/native/reply.h"

#include <optional>
#include <string_view>

#include "fmt/format.h"
#include "kernels/device/backend.h"
#include "proto/messages.h"
#include "proto/wire.h"
#include "quantd.pb.h"
#include "quantd/error.h"

namespace quantd::python {
namespace {

// Removes an ending, because the Python package appends its own to messages.
void TakeEnding(std::string_view ending, std::string_view* text) {
  if (text->ends_with(ending)) text->remove_suffix(ending.size());
}

std::optional<v1::ErrorDetail> DetailOf(const absl::Status& status) {
  v1::ErrorDetail detail;
  const auto violation = GetFieldViolation(status);
  const auto server = GetServerError(status);
  if (violation) {
    detail.set_reason(v1::ErrorDetail::REASON_INVALID_FIELD);
    detail.set_field(violation->field);
    detail.set_expected(violation->expected);
    detail.set_got(violation->got);
  }
  if (server) {
    detail.set_reason(
        static_cast<v1::ErrorDetail::Reason>(static_cast<int>(server->reason)));
    detail.set_limit(server->limit);
    detail.set_retry_delay_ms(
        static_cast<uint32_t>(server->retry_delay.count()));
  } else if (wire::IsMalformed(status)) {
    detail.set_reason(v1::ErrorDetail::REASON_MALFORMED);
  } else if (!violation) {
    return std::nullopt;
  }
  return detail;
}

}  // namespace

std::string ReplyOf(const Plan& plan, const Result& result) {
  JobReport report;
  report.saw_nan = result.saw_nan();
  report.saw_inf = result.saw_inf();
  report.replaced_globals = result.replaced_globals();
  report.rowwise = result.statistics(Usage::kRowwise);
  report.columnwise = result.statistics(Usage::kColumnwise);
  std::string head =
      wire::ReplyHead(plan, report, result.device(), /*request_id=*/"");
  // The head ends with the tag and size of the payload, which does not follow
  // here.
  std::string prefix;
  wire::AppendPayloadPrefix(plan.output_bytes(), &prefix);
  head.resize(head.size() - prefix.size());
  return head;
}

Failure FailureOf(const absl::Status& status) {
  Failure failure;
  failure.code = static_cast<int>(status.code());
  failure.request_id = GetRequestId(status);
  failure.attempts = GetAttempts(status);
  const std::string message(status.message());
  std::string_view text = message;
  if (failure.attempts > 1) {
    TakeEnding(fmt::format(" (sent {} times)", failure.attempts), &text);
  }
  if (!failure.request_id.empty()) {
    TakeEnding(fmt::format(" (request id {})", failure.request_id), &text);
  }
  failure.message = text;
  if (const auto detail = DetailOf(status)) {
    failure.detail = detail->SerializeAsString();
  }
  return failure;
}

}  // namespace quantd::python
