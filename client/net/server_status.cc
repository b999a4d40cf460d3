#include "client/net/server_status.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "client/call/error_details.h"
#include "proto/methods.h"
#include "quantd.pb.h"
#include "quantd/field_error.h"

namespace quantd::client {
namespace {

constexpr char kDetailUrl[] = "type.googleapis.com/quantd.v1.ErrorDetail";

// The fields of a google.rpc.Status that are used here.
struct RpcStatus {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string message;
  std::optional<v1::ErrorDetail> detail;  // the first ErrorDetail
};

// Parses as much as is well-formed. Field 1 is the code, 2 the message, and 3
// repeated google.protobuf.Any.
RpcStatus ReadStatus(const std::string& rpc_status) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream in(
      reinterpret_cast<const uint8_t*>(rpc_status.data()),
      static_cast<int>(rpc_status.size()));
  RpcStatus status;
  while (const uint32_t tag = in.ReadTag()) {
    uint32_t number = 0;
    std::string bytes;
    if (tag == 1 << 3) {
      if (!in.ReadVarint32(&number)) break;
      // An error must not have the code OK.
      if (number >= 1 && number <= 16) {
        status.code = static_cast<absl::StatusCode>(number);
      }
    } else if (tag == (2 << 3 | 2) || tag == (3 << 3 | 2)) {
      if (!in.ReadVarint32(&number) ||
          !in.ReadString(&bytes, static_cast<int>(number))) {
        break;
      }
      google::protobuf::Any any;
      v1::ErrorDetail detail;
      if (tag == (2 << 3 | 2)) {
        status.message = std::move(bytes);
      } else if (any.ParseFromString(bytes) && any.type_url() == kDetailUrl &&
                 detail.ParseFromString(any.value())) {
        status.detail = std::move(detail);
        break;
      }
    } else if (!WireFormatLite::SkipField(&in, tag)) {
      break;
    }
  }
  return status;
}

std::string Trailer(const grpc::ClientContext& context, const char* name) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find(name);
  if (found == trailers.end()) return "";
  return std::string(found->second.data(), found->second.size());
}

// How long to wait before the server accepts the call again. nullopt if retries
// are useless.
std::optional<std::chrono::milliseconds> RetryDelay(
    absl::StatusCode code, const grpc::ClientContext& context,
    const std::optional<v1::ErrorDetail>& detail) {
  using std::chrono::milliseconds;
  if (code != absl::StatusCode::kResourceExhausted &&
      code != absl::StatusCode::kUnavailable) {
    return std::nullopt;
  }
  const std::string pushback = Trailer(context, wire::kPushbackKey);
  if (!pushback.empty()) {
    int32_t ms = 0;
    // By gRPC's retry design, anything but a number means "do not retry".
    if (!absl::SimpleAtoi(pushback, &ms) || ms < 0) return std::nullopt;
    return milliseconds(ms);
  }
  return milliseconds(detail ? detail->retry_delay_ms() : 0);
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status,
                      const grpc::ClientContext& context) {
  auto code = static_cast<absl::StatusCode>(status.error_code());
  std::string message = status.error_message();
  const auto [word, text, detail] = ReadStatus(status.error_details());
  if (code == absl::StatusCode::kCancelled && detail) {
    // A proxy reset the stream because the server answered before it had
    // received the whole request. The server's answer is in the trailers.
    code = word;
    message = text;
  }
  const std::string id = Trailer(context, wire::kRequestIdKey);
  // gRPC reports "Stream removed" for some closed connections.
  const bool removed = code == absl::StatusCode::kUnknown &&
                       status.error_message() == "Stream removed";
  if ((code == absl::StatusCode::kCancelled || removed) && !detail &&
      id.empty()) {
    // The service always adds details, and the caller did not cancel. This
    // status is from gRPC itself, for example while a server shuts down.
    absl::Status result = absl::UnavailableError(
        "the connection failed during the call, or the server shut down");
    SetRetryHint(&result, std::chrono::milliseconds(0));
    return result;
  }
  absl::Status result(code, message);
  if (detail && code == absl::StatusCode::kInvalidArgument &&
      !detail->field().empty()) {
    // FieldError builds the payload that represents the field in a status.
    const absl::Status field =
        FieldError(detail->field(), detail->expected(), detail->got());
    field.ForEachPayload([&](absl::string_view url, const absl::Cord& value) {
      result.SetPayload(url, value);
    });
  }
  if (detail) {
    SetServerError(&result,
                   {static_cast<ErrorReason>(detail->reason()), detail->limit(),
                    std::chrono::milliseconds(detail->retry_delay_ms())});
  }
  if (!id.empty()) SetRequestId(&result, id);
  if (const auto delay = RetryDelay(code, context, detail)) {
    SetRetryHint(&result, *delay);
  }
  return result;
}

}  // namespace quantd::client
