#include "client/quantctl/echo/echo_client.h"

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>

#include <algorithm>
#include <cstdint>
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

namespace quantd::quantctl {
namespace {

constexpr std::chrono::minutes kPatience(5);  // a server takes ten

// How many messages carry so many bytes.
size_t PiecesOf(size_t bytes, size_t piece_bytes) {
  if (piece_bytes == 0 || piece_bytes >= bytes) return 1;
  return (bytes + piece_bytes - 1) / piece_bytes;
}

// Part `i` of so many that are equal to a byte.
template <typename T>
absl::Span<T> Share(absl::Span<T> all, size_t i, size_t count) {
  const size_t begin = ShareOf(all.size(), i, count);
  return all.subspan(begin, ShareOf(all.size(), i + 1, count) - begin);
}

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
                                  const Arrangement& how) {
  if (how.in_then_out) {
    const auto in = ByCalls(input, {}, how);
    if (!in.ok()) return in;
    // As many calls for what comes back, of a byte each.
    const size_t calls = PiecesOf(input.size(), how.piece_bytes);
    Arrangement out = how;
    out.piece_bytes = calls > 1 ? 1 : 0;
    return ByCalls(input.subspan(0, calls), output, out);
  }
  return how.streamed ? ByStreams(input, output, how)
                      : ByCalls(input, output, how);
}

absl::Status EchoClient::ByCalls(absl::Span<const std::byte> input,
                                 absl::Span<std::byte> output,
                                 const Arrangement& how) {
  const size_t pieces = PiecesOf(input.size(), how.piece_bytes);
  if (pieces == 1) {
    return Send(*connections_[next_++ % connections_.size()], input, output);
  }
  std::atomic<size_t> taken = 0;
  return OverConnections(std::min<size_t>(how.connections, pieces),
                         [&](grpc::GenericStub& stub, size_t) -> absl::Status {
                           for (size_t i = taken++; i < pieces; i = taken++) {
                             const auto s = Send(stub, Share(input, i, pieces),
                                                 Share(output, i, pieces));
                             if (s.ok()) continue;
                             taken = pieces;
                             return s;
                           }
                           return {};
                         });
}

absl::Status EchoClient::ByStreams(absl::Span<const std::byte> input,
                                   absl::Span<std::byte> output,
                                   const Arrangement& how) {
  const size_t pieces = PiecesOf(input.size(), how.piece_bytes);
  const size_t streams = std::min<size_t>(how.connections, pieces);
  return OverConnections(streams, [&](grpc::GenericStub& stub, size_t i) {
    const auto mine = Share(input, i, streams);
    return Stream(stub, mine, Share(output, i, streams),
                  PiecesOf(mine.size(), how.piece_bytes));
  });
}

absl::Status EchoClient::OverConnections(
    size_t count,
    const std::function<absl::Status(grpc::GenericStub&, size_t)>& work) {
  std::mutex mutex;
  absl::Status all;
  const auto one = [&](size_t i) {
    const auto s = work(*connections_[i % connections_.size()], i);
    const std::lock_guard lock(mutex);
    all.Update(s);
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < count; ++i) others.emplace_back(one, i);
  one(0);
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
  return Take(&reply, output);
}

absl::Status EchoClient::Stream(grpc::GenericStub& stub,
                                absl::Span<const std::byte> input,
                                absl::Span<std::byte> output,
                                size_t pieces) const {
  enum Event : intptr_t { kStarted, kWritten, kRead, kEnded };
  const auto tag_of = [](Event e) { return reinterpret_cast<void*>(e); };
  const auto pins = std::make_shared<client::Pins>();
  absl::Status wrong;
  grpc::Status status;
  {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline_);
    context.AddMetadata(kEchoReplyBytes, std::to_string(output.size()));
    context.AddMetadata(kEchoMessages, std::to_string(pieces));
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareCall(&context, kEchoMethod, &queue);
    size_t sent = 0;
    size_t came = 0;
    ReceivedMessage reply;
    const auto write = [&] {
      const grpc::Slice slice =
          client::Pins::Borrow(Share(input, sent, pieces), pins);
      grpc::WriteOptions last;
      if (++sent == pieces) last.set_last_message();
      call->Write(grpc::ByteBuffer(&slice, 1), last, tag_of(kWritten));
    };
    call->StartCall(tag_of(kStarted));
    int under_way = 1;
    bool ended = false;
    void* tag = nullptr;
    bool ok = false;
    // Until the call's own end: one that fails lets every operation fail.
    while (under_way > 0 && queue.Next(&tag, &ok)) {
      --under_way;
      const auto event = static_cast<Event>(reinterpret_cast<intptr_t>(tag));
      if (event == kEnded) continue;
      if (event == kRead && ok) {
        const size_t share = came++;
        wrong.Update(share < pieces ? Take(&reply, Share(output, share, pieces))
                                    : absl::InternalError("too many answers"));
        reply.Clear();
        if (!wrong.ok()) context.TryCancel();
      }
      if (event == kStarted || (event == kRead && ok)) {
        call->Read(reply.buffer(), tag_of(kRead));
        ++under_way;
      }
      if (ok && (event == kStarted || event == kWritten) && sent < pieces) {
        write();
        ++under_way;
      }
      if (event == kRead && !ok && !ended) {
        ended = true;
        call->Finish(&status, tag_of(kEnded));
        ++under_way;
      }
    }
    if (status.ok() && wrong.ok() && came < pieces) {
      wrong = absl::InternalError("too few answers");
    }
  }
  pins->WaitUntilFree();
  if (!wrong.ok()) return wrong;
  return status.ok() ? absl::Status() : ErrorOf(status);
}

absl::Status EchoClient::Take(ReceivedMessage* reply,
                              absl::Span<std::byte> place) const {
  if (reply->size() != place.size()) {
    return absl::InternalError(
        fmt::format("the echo at {} answered {} bytes where {} were asked for: "
                    "name a quantctl echo-server with --echo",
                    address_, reply->size(), place.size()));
  }
  std::byte* to = place.data();
  for (const std::string_view piece : reply->Pieces()) {
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
