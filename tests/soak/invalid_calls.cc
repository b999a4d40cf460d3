#include "tests/soak/invalid_calls.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "client/net/address.h"
#include "client/net/channel.h"
#include "quantd.pb.h"

namespace quantd::soak {
namespace {

v1::QuantizeRequest Good() {
  v1::QuantizeRequest request;
  request.mutable_tensor()->set_dtype(v1::DTYPE_BF16);
  request.mutable_tensor()->add_shape(16);
  request.mutable_tensor()->add_shape(64);
  request.mutable_options()->set_format(v1::FORMAT_NVFP4);
  request.mutable_options()->set_usage(v1::USAGE_ROWWISE);
  request.set_payload(std::string(16 * 64 * 2, '\1'));
  return request;
}

std::string Request(uint64_t number) {
  v1::QuantizeRequest request = Good();
  switch (number % 6) {
    case 0:
      request.mutable_tensor()->set_shape(0, 17);  // does not match the payload
      break;
    case 1:
      request.mutable_tensor()->set_shape(1, -1);
      break;
    case 2:
      request.mutable_options()->set_format(v1::FORMAT_UNSPECIFIED);
      break;
    case 3:
      request.clear_payload();
      break;
    case 4: {  // ends in the middle of a field
      std::string bytes = request.SerializeAsString();
      bytes.resize(bytes.size() / 2);
      return bytes;
    }
    default:
      return std::string(1 + number % 200, '\xff');
  }
  return request.SerializeAsString();
}

}  // namespace

absl::StatusOr<std::unique_ptr<InvalidCalls>> InvalidCalls::Create(
    const std::string& target, const ClientOptions& options) {
  auto credentials = client::LoadCredentials(target, options.credentials);
  if (!credentials.ok()) return credentials.status();
  const client::Address first = {target.substr(0, target.find(',')), ""};
  const client::ChannelFactory factory(options, *credentials);
  return std::unique_ptr<InvalidCalls>(new InvalidCalls(
      *credentials, factory.ForCalls(first), options.deadline));
}

InvalidCalls::InvalidCalls(client::ChannelCredentials credentials,
                           std::shared_ptr<grpc::Channel> channel,
                           std::chrono::milliseconds deadline)
    : credentials_(std::move(credentials)),
      deadline_(deadline),
      stub_(std::move(channel)) {}

InvalidCalls::Answer InvalidCalls::Call(uint64_t number) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline_);
  credentials_.Authorize(&context);
  const grpc::Slice slice(Request(number));
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer reply;
  grpc::Status status;
  grpc::CompletionQueue queue;
  const auto call = stub_.PrepareUnaryCall(
      &context, "/quantd.v1.Quantd/Quantize", request, &queue);
  call->StartCall();
  call->Finish(&reply, &status, this);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return {.code = static_cast<absl::StatusCode>(status.error_code()),
          .told = !status.error_details().empty()};
}

}  // namespace quantd::soak
