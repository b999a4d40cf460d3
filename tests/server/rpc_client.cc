#include "tests/server/rpc_client.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/unknown_field_set.h>

#include <vector>

#include "absl/time/clock.h"

namespace quantd {
namespace {

std::string Flatten(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!buffer.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

// Returns the detail inside a serialized google.rpc.Status, which is parsed
// without its message type.
std::optional<v1::ErrorDetail> ReadDetail(const std::string& status) {
  google::protobuf::UnknownFieldSet fields;
  if (!fields.ParseFromString(status)) return std::nullopt;
  for (int i = 0; i < fields.field_count(); ++i) {
    if (fields.field(i).number() != 3) continue;
    google::protobuf::Any any;
    v1::ErrorDetail detail;
    if (any.ParseFromString(fields.field(i).length_delimited()) &&
        any.UnpackTo(&detail)) {
      return detail;
    }
  }
  return std::nullopt;
}

std::string Trailer(const grpc::ClientContext& context, const char* key) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto it = trailers.find(key);
  return it == trailers.end()
             ? std::string()
             : std::string(it->second.data(), it->second.size());
}

}  // namespace

std::shared_ptr<grpc::Channel> Dial(
    const std::string& address,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Disables windows that grow by measurement, with which an unread reply would
  // only sometimes fit.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

RpcCall::RpcCall(const std::shared_ptr<grpc::Channel>& channel,
                 const RpcOptions& options)
    : RpcCall(channel, "/quantd.v1.Quantd/" + options.method, options) {}

RpcCall::RpcCall(const std::shared_ptr<grpc::Channel>& channel,
                 const std::string& path, const RpcOptions& options)
    : stub_(channel) {
  context_.set_deadline(absl::ToChronoTime(absl::Now() + options.deadline));
  if (options.declared) {
    context_.AddMetadata("quantd-request-bytes", *options.declared);
  }
  if (!options.authorization.empty()) {
    context_.AddMetadata("authorization", options.authorization);
  }
  for (const auto& [key, value] : options.metadata) {
    context_.AddMetadata(key, value);
  }
  stream_ = stub_.PrepareCall(&context_, path, &queue_);
  stream_->StartCall(this);
  Step();
}

RpcCall::~RpcCall() {
  context_.TryCancel();
  queue_.Shutdown();
  while (Step()) {
  }
}

bool RpcCall::Step() {
  void* tag = nullptr;
  bool ok = false;
  return queue_.Next(&tag, &ok) && ok;
}

bool RpcCall::Send(const std::string& message) {
  return Send(grpc::Slice(message));
}

bool RpcCall::Send(const grpc::Slice& message) {
  stream_->Write(grpc::ByteBuffer(&message, 1), this);
  return Step();
}

bool RpcCall::HalfClose() {
  stream_->WritesDone(this);
  return Step();
}

std::optional<std::string> RpcCall::Receive() {
  grpc::ByteBuffer buffer;
  stream_->Read(&buffer, this);
  if (!Step()) return std::nullopt;
  return Flatten(buffer);
}

RpcResult RpcCall::Finish() {
  RpcResult result;
  stream_->Finish(&result.status, this);
  Step();
  result.detail = ReadDetail(result.status.error_details());
  result.request_id = Trailer(context_, "quantd-request-id");
  result.pushback = Trailer(context_, "grpc-retry-pushback-ms");
  return result;
}

RpcResult Call(const std::shared_ptr<grpc::Channel>& channel,
               const std::string& request, const RpcOptions& options) {
  RpcCall call(channel, options);
  // A refused call may end before everything is sent, so the result is the
  // status.
  if (call.Send(request)) call.HalfClose();
  std::optional<std::string> reply = call.Receive();
  RpcResult result = call.Finish();
  if (reply) result.reply = *std::move(reply);
  return result;
}

v1::QuantizeRequest QuantizeOnes(int64_t rows) {
  v1::QuantizeRequest request;
  request.mutable_tensor()->set_dtype(v1::DTYPE_BF16);
  request.mutable_tensor()->add_shape(rows);
  request.mutable_tensor()->add_shape(1024);
  request.mutable_options()->set_format(v1::FORMAT_NVFP4);
  std::string& payload = *request.mutable_payload();
  payload.reserve(rows * 2048);
  for (int64_t i = 0; i < rows * 1024; ++i) payload += "\x80\x3f";
  return request;
}

bool Eventually(const std::function<bool()>& condition) {
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (!condition()) {
    if (absl::Now() >= end) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

}  // namespace quantd
