#include "client/quantctl/echo/echo_client.h"

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>

#include "client/call_options.h"
#include "client/net/address.h"
#include "client/net/channel.h"
#include "client/net/channel_credentials.h"
#include "client/net/stream/pins.h"
#include "client/quantctl/echo/echo_server.h"
#include "fmt/format.h"
#include "proto/net/received_message.h"

namespace quantd::quantctl {
namespace {

constexpr std::chrono::minutes kPatience(5);  // a server takes ten

}  // namespace

absl::StatusOr<std::unique_ptr<EchoClient>> EchoClient::Create(
    const std::string& address, int connections,
    std::chrono::milliseconds deadline) {
  const auto places = client::ParseTarget(address);
  if (!places.ok() || places->size() != 1) {
    return absl::InvalidArgumentError(fmt::format(
        "--echo: expected self, or the one HOST:PORT or unix:/PATH of a "
        "quantctl echo-server, got {}",
        address));
  }
  client::Address one{address, ""};
  if (const auto* known = std::get_if<client::Address>(&places->front())) {
    one = *known;
  }
  const auto credentials = client::LoadCredentials(one.target, {});
  if (!credentials.ok()) return credentials.status();
  const client::ChannelFactory factory(ClientOptions(), *credentials);
  std::unique_ptr<EchoClient> echo(new EchoClient(
      address, std::min<std::chrono::milliseconds>(deadline, kPatience)));
  for (int i = 0; i < connections; ++i) {
    echo->connections_.push_back(
        std::make_unique<grpc::GenericStub>(factory.ForCalls(one)));
  }
  return echo;
}

absl::Status EchoClient::Exchange(absl::Span<const std::byte> input,
                                  absl::Span<std::byte> output,
                                  size_t piece_bytes) {
  if (piece_bytes == 0 || piece_bytes >= input.size()) {
    return Send(*connections_[next_++ % connections_.size()], input, output);
  }
  const size_t pieces = (input.size() + piece_bytes - 1) / piece_bytes;
  std::atomic<size_t> taken = 0;
  std::mutex mutex;
  absl::Status all;
  const auto work = [&](size_t connection) {
    for (size_t i = taken++; i < pieces; i = taken++) {
      const size_t from = output.size() * i / pieces;
      const absl::Status s =
          Send(*connections_[connection],
               input.subspan(i * piece_bytes, piece_bytes),
               output.subspan(from, output.size() * (i + 1) / pieces - from));
      if (s.ok()) continue;
      taken = pieces;
      const std::lock_guard lock(mutex);
      all.Update(s);
    }
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min(connections_.size(), pieces); ++i) {
    others.emplace_back(work, i);
  }
  work(0);
  for (std::thread& other : others) other.join();
  return all;
}

absl::Status EchoClient::Send(grpc::GenericStub& stub,
                              absl::Span<const std::byte> input,
                              absl::Span<std::byte> output) const {
  const auto pins = std::make_shared<client::Pins>();
  ReceivedMessage reply;
  grpc::Status status;
  {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline_);
    context.AddMetadata(kEchoReplyBytes, std::to_string(output.size()));
    grpc::CompletionQueue queue;
    const grpc::Slice slice = client::Pins::Borrow(input, pins);
    const grpc::ByteBuffer request(&slice, 1);
    const auto call =
        stub.PrepareUnaryCall(&context, kEchoMethod, request, &queue);
    call->StartCall();
    call->Finish(reply.buffer(), &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
  }
  pins->WaitUntilFree();
  if (!status.ok()) return ErrorOf(status);
  if (reply.size() != output.size()) {
    return absl::InternalError(
        fmt::format("the echo at {} answered {} bytes where {} were asked for: "
                    "name a quantctl echo-server with --echo",
                    address_, reply.size(), output.size()));
  }
  std::byte* to = output.data();
  for (const std::string_view piece : reply.Pieces()) {
    std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
  return {};
}

absl::Status EchoClient::ErrorOf(const grpc::Status& status) const {
  std::string next = "stop and start it again";
  switch (status.error_code()) {
    case grpc::StatusCode::UNIMPLEMENTED:
      next = "that is no echo; start one with quantctl echo-server";
      break;
    case grpc::StatusCode::UNAVAILABLE:
      next = fmt::format(
          "start one with 'quantctl echo-server --listen {}', or use --echo "
          "self",
          address_);
      break;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      next = "give it more time with --deadline";
      break;
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      next = "give it a larger --max-bytes, or the bench smaller --sizes";
      break;
    default:
      break;
  }
  return {static_cast<absl::StatusCode>(status.error_code()),
          fmt::format("the echo at {} did not answer: {}; {}", address_,
                      status.error_message(), next)};
}

}  // namespace quantd::quantctl
