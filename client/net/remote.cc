#include "client/net/remote.h"

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/memory/lending.h"
#include "client/net/address.h"
#include "client/net/channel.h"
#include "client/net/channel_credentials.h"
#include "client/net/exchange.h"
#include "client/net/replies.h"
#include "client/net/servers.h"
#include "client/net/stream/stream_sender.h"
#include "client/tensors/result_builder.h"
#include "kernels/plan/shards.h"
#include "proto/memory/ranges.h"
#include "proto/wire.h"
#include "quantd/field_error.h"

namespace quantd::client {
namespace {

// Builds a request. The payload stays in the caller's memory. Returns a
// FieldError for "payload" if the payload exceeds one message, and for
// "message" if the rest of the request exceeds what a server accepts.
absl::StatusOr<Message> RequestOf(const Plan& plan, const Lending& lending) {
  size_t size = 0;
  for (const auto& piece : lending.payload) size += piece.size();
  auto head = wire::RequestHead(plan, size, lending.ranges, lending.amax);
  if (!head.ok()) return head.status();
  return Message{wire::SpecOf(wire::MethodOf(plan)).path, *std::move(head),
                 lending.payload};
}

class Remote : public Endpoint {
 public:
  Remote(std::string target, std::vector<Place> places,
         const ClientOptions& options, const ChannelCredentials& credentials)
      : door_{options.memory_socket, options.dead_peer_timeout},
        credentials_(credentials),
        channels_(options.channels),
        servers_(std::move(places), ChannelFactory(options, credentials),
                 options.channels),
        exchange_(std::move(target), options, credentials, &servers_) {}

  const std::string& target() const override { return exchange_.target(); }

  int connections() const override {
    return channels_ * static_cast<int>(servers_.size());
  }

  Lending Lend(const Call& call) override {
    std::vector<Destination> into(call.into.begin(), call.into.end());
    HostMemory own;
    // If the inputs lie in shared memory, results are placed there, too.
    if (!call.payload.empty() && regions_.Holds(call.payload[0]) &&
        regions_.Settled(call.payload[0])) {
      own = PlaceResults(call.plan, &into);
    }
    Lending lending = regions_.Lend(
        call.plan, call.payload, into, call.events,
        std::chrono::ceil<std::chrono::milliseconds>(
            call.limit.deadline - std::chrono::system_clock::now()));
    lending.into = std::move(into);
    lending.own = std::move(own);
    return lending;
  }

  absl::StatusOr<Result> Run(const Call& call, Way way,
                             const OnSent& on_sent) override {
    if (way == Way::kStream) return RunStream(call, on_sent);
    Lending none;
    none.payload.assign(call.payload.begin(), call.payload.end());
    Lending& lending = way == Way::kLent ? *call.lending : none;
    Trip trip;
    auto result =
        Send(call, lending, way == Way::kLent ? lending.into : call.into, &trip,
             on_sent);
    if (trip.unsure) lending.Settle();
    if (wire::IsUnknownName(result.status())) lending.Lose();
    if (result.ok()) ResultBuilder::Keep(std::move(lending.own), &*result);
    return result;
  }

  std::optional<absl::StatusOr<Result>> RunReduced(
      const Call& call, Reduction& reduction) override {
    if (!CheckReduces(call.plan).ok()) return std::nullopt;
    const auto head = wire::ReducingHead(call.plan, PayloadBytes(call.plan));
    if (!head.ok()) return head.status();
    auto result = Stream(call, *head, {}, &reduction);
    const auto violation = GetFieldViolation(result.status());
    const bool unknown = absl::IsUnimplemented(result.status()) ||
                         (violation && violation->field == "request");
    // Either the stream ended after its maxima were known, or the server does
    // not support reducing streams. In both cases the caller uses RunInTwo.
    if (!result.ok() && (reduction.found() || unknown)) return std::nullopt;
    return result;
  }

  absl::StatusOr<std::string> Ask(wire::Method method,
                                  const std::string& request,
                                  const CallLimit& limit,
                                  CallControl& control) override {
    Trip trip;
    ReceivedMessage reply;
    const absl::Status sent =
        exchange_.Run(Message{wire::SpecOf(method).path, request}, limit,
                      control, &reply, &trip);
    if (!sent.ok()) return sent;
    std::string whole;
    for (const std::string_view piece : reply.Pieces()) whole += piece;
    return whole;
  }

  absl::StatusOr<HostMemory> AllocateHost(size_t bytes) override {
    if (door_.path.empty()) return Endpoint::AllocateHost(bytes);
    const auto page = static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
    if (bytes > SIZE_MAX - page) {
      return absl::ResourceExhaustedError("no memory for so many bytes");
    }
    return Record(
        SharedRegion::Allocate((bytes + page - 1) / page * page, door_), bytes);
  }

  absl::StatusOr<HostMemory> RegisterHost(int memfd,
                                          absl::Span<std::byte> mapping,
                                          HostUse use) override {
    if (door_.path.empty()) return Endpoint::RegisterHost(memfd, mapping, use);
    return Record(SharedRegion::Adopt(memfd, mapping, use, door_),
                  mapping.size());
  }

  absl::StatusOr<DeviceMemory> AllocateDevice(int ordinal,
                                              size_t bytes) override {
    if (door_.path.empty()) return Endpoint::AllocateDevice(ordinal, bytes);
    const auto made = SharedRegion::AllocateDevice(ordinal, bytes, door_);
    if (!made.ok()) return made.status();
    regions_.Add(*made);
    return DeviceMemory((*made)->bytes().first(bytes), *made);
  }

  absl::StatusOr<DeviceMemory> RegisterDevice(const void* address) override {
    if (door_.path.empty()) return Endpoint::RegisterDevice(address);
    const auto made = SharedRegion::AdoptDevice(address, door_);
    if (!made.ok()) return made.status();
    regions_.Add(*made);
    return DeviceMemory((*made)->bytes(), *made);
  }

  absl::StatusOr<DeviceEvent> RegisterEvent(int ordinal, void* event) override {
    if (door_.path.empty()) return Endpoint::RegisterEvent(ordinal, event);
    auto made = SharedRegion::AdoptEvent(ordinal, event, door_);
    if (!made.ok()) return made.status();
    return DeviceEvent(*std::move(made));
  }

 protected:
  bool Sound(const HostMemory& memory) override {
    return regions_.Settled(memory.bytes());
  }

 private:
  absl::StatusOr<Result> RunStream(const Call& call, const OnSent& on_sent) {
    if (auto s = CheckApart(call.payload, call.into); !s.ok()) return s;
    const auto head = wire::StreamHead(call.plan, PayloadBytes(call.plan));
    if (!head.ok()) return head.status();
    return Stream(call, *head, on_sent, nullptr);
  }

  absl::StatusOr<Result> Stream(const Call& call, const std::string& head,
                                const OnSent& on_sent, Reduction* reduction) {
    StreamedReply reply(call.plan, call.into, reduction != nullptr);
    if (!reply.status().ok()) return reply.status();
    Trip trip;
    {
      StreamSender sender(head, call.payload, credentials_, reduction);
      const absl::Status sent = exchange_.Run(
          sender.size(),
          [&](grpc::GenericStub& stub, const OnSent& told) {
            absl::Status s =
                sender.Send(stub, call.limit, told, call.control, &reply);
            // After the maxima were reported, the stream must not be repeated:
            // the reduction has them already.
            const bool met = reduction != nullptr && reduction->found();
            return s.ok() || !met ? s : absl::AbortedError(s.message());
          },
          call.limit, call.control, &trip, on_sent);
      if (!sent.ok()) return sent;
    }
    return reply.Finish(trip);
  }

  // Records a new region, so that calls recognize its memory by address, and
  // returns its first `bytes` bytes.
  absl::StatusOr<HostMemory> Record(const SharedRegion::Made& made,
                                    size_t bytes) {
    if (!made.ok()) return made.status();
    regions_.Add(*made);
    return HostMemory((*made)->bytes().first(bytes), *made, true);
  }

  // Sends the call as one message, and reads the reply into the result.
  absl::StatusOr<Result> Send(const Call& call, const Lending& lending,
                              absl::Span<const Destination> into, Trip* trip,
                              const OnSent& on_sent) {
    const auto message = RequestOf(call.plan, lending);
    if (!message.ok()) return message.status();
    ReceivedMessage reply;
    if (auto s = exchange_.Run(*message, call.limit, call.control, &reply, trip,
                               on_sent);
        !s.ok()) {
      return s;
    }
    return ReadReply(call.plan, reply.Pieces(), into, lending.ranges,
                     lending.of_device ? Transport::kCuda : Transport::kShared,
                     *trip);
  }

  const DoorAddress door_;  // an empty path: no shared memory
  const ChannelCredentials credentials_;
  const int channels_;
  SharedRegions regions_;
  Servers servers_;
  Exchange exchange_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Endpoint>> OpenRemote(
    std::string_view target, const ClientOptions& options) {
  auto places = ParseTarget(target);
  if (!places.ok()) return places.status();
  if (!options.memory_socket.empty() && places->size() != 1) {
    return FieldError("memory_socket", "a target with a single address",
                      std::string(target));
  }
  const auto credentials = LoadCredentials(target, options.credentials);
  if (!credentials.ok()) return credentials.status();
  return std::make_unique<Remote>(std::string(target), *std::move(places),
                                  options, *credentials);
}

}  // namespace quantd::client
