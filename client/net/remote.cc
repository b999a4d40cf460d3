#include "client/net/remote.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/call/error_details.h"
#include "client/call/server_settings.h"
#include "client/memory/lending.h"
#include "client/net/address.h"
#include "client/net/channel.h"
#include "client/net/channel_credentials.h"
#include "client/net/exchange.h"
#include "client/net/replies.h"
#include "client/net/requests.h"
#include "client/net/servers.h"
#include "client/net/stream/stream_sender.h"
#include "client/tensors/result_builder.h"
#include "kernels/plan/field_error.h"

namespace quantd::client {
namespace {

class Remote : public Endpoint {
 public:
  Remote(std::string target, std::vector<Place> places,
         const ClientOptions& options, const ChannelCredentials& credentials)
      : door_{options.memory_socket, options.dead_peer_timeout},
        credentials_(credentials),
        stream_from_(options.stream_from),
        channels_(options.channels),
        servers_(std::move(places), ChannelFactory(options, credentials),
                 options.channels),
        exchange_(std::move(target), options, credentials, &servers_) {
    for (auto& bytes : largest_) bytes = kLargestPayload;
  }

  const std::string& target() const override { return exchange_.target(); }

  absl::StatusOr<Result> Run(
      const Plan& plan, absl::Span<const absl::Span<const std::byte>> payload,
      absl::Span<const Destination> into, const CallEvents& events,
      const CallLimit& limit, CallControl& control) override {
    // What comes from shared memory goes there.
    std::vector<Destination> places(into.begin(), into.end());
    HostMemory own;
    if (!payload.empty() && regions_.Holds(payload[0]) &&
        regions_.Settled(payload[0])) {
      own = PlaceResults(plan, &places);
    }
    // Memory that the server does not know any more is shared again, once; what
    // cannot be is sent.
    Lending last;
    for (int loss = 0;; ++loss) {
      Lending lending;
      if (loss < 2) {
        lending = regions_.Lend(
            plan, payload, places, events,
            std::chrono::ceil<std::chrono::milliseconds>(
                limit.deadline - std::chrono::system_clock::now()));
      } else {
        lending.payload.assign(payload.begin(), payload.end());
        lending.status = last.of_device ? Lost() : absl::OkStatus();
      }
      if (!lending.status.ok()) {
        return Annotate(lending.status, std::string(lending.status.message()),
                        1);
      }
      auto result = RunLending(plan, lending, places, limit, control);
      if (!lending.any() || !wire::IsUnknownName(result.status())) {
        if (result.ok()) ResultBuilder::Keep(std::move(own), &*result);
        return result;
      }
      lending.Lose();
      last = std::move(lending);
    }
  }

  absl::StatusOr<Result> RunReduced(
      const Plan& plan, absl::Span<const absl::Span<const std::byte>> payload,
      absl::Span<const Destination> into, const CallEvents& events,
      const CallLimit& limit, CallControl& control,
      Reduction& reduction) override {
    const bool stays =
        events.any() || !CheckApart(payload, into).ok() ||
        std::any_of(payload.begin(), payload.end(),
                    [&](const auto& piece) { return regions_.Holds(piece); });
    std::optional<absl::StatusOr<Result>> result;
    if (!stays && CheckReduces(plan).ok()) {
      result = StreamReduced(plan, payload, into, limit, control, reduction);
    }
    if (result) return *std::move(result);
    return Endpoint::RunReduced(plan, payload, into, events, limit, control,
                                reduction);
  }

  size_t MostReducedAtOnce(size_t bytes, const CallLimit& limit,
                           CallControl& control) override {
    const auto settings = Learn(limit, control);
    if (!settings || !settings->reduces) return 0;
    size_t most = 0;  // each lies on one device, and others have calls, too
    for (const size_t n : settings->memory) most += n / 4 * 3 / bytes;
    return most;
  }

  std::optional<float> DefaultEstimate(const CallLimit& limit,
                                       CallControl& control) override {
    const auto settings = Learn(limit, control);
    if (!settings) return std::nullopt;
    return settings->estimate;
  }

  int Connections(absl::Span<const absl::Span<const std::byte>> payload,
                  absl::Span<const Destination> into) override {
    for (const auto& piece : payload) {
      if (regions_.Holds(piece)) return 0;
    }
    for (const Destination& place : into) {
      if (regions_.Holds(place.bytes)) return 0;
    }
    return channels_ * static_cast<int>(servers_.size());
  }

  int Devices(absl::Span<const absl::Span<const std::byte>> payload,
              absl::Span<const Destination> into, const CallLimit& limit,
              CallControl& control) override {
    for (const auto& piece : payload) {
      if (!regions_.HoldsOnHost(piece)) return 1;
    }
    for (const Destination& place : into) {
      if (!regions_.HoldsOnHost(place.bytes)) return 1;
    }
    const auto settings = Learn(limit, control);
    return settings ? static_cast<int>(settings->memory.size()) : 1;
  }

  absl::StatusOr<QuantizeDescription> Describe(const Plan& plan,
                                               const CallLimit& limit,
                                               CallControl& control) override {
    Trip trip;
    return Ask<QuantizeDescription>(DescribeRequestOf(plan), limit, control,
                                    &trip, ReadDescription);
  }

  absl::StatusOr<ServerInfo> GetInfo(const CallLimit& limit,
                                     CallControl& control) override {
    Trip trip;
    return Ask<ServerInfo>(ServerInfoRequest(), limit, control, &trip,
                           ReadServerInfo);
  }

  absl::StatusOr<HostMemory> AllocateHost(size_t bytes) override {
    if (door_.path.empty()) return Endpoint::AllocateHost(bytes);
    const auto page = static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
    if (bytes > SIZE_MAX - page) {
      return absl::ResourceExhaustedError("no machine has so much memory");
    }
    return Known(
        SharedRegion::Allocate((bytes + page - 1) / page * page, door_), bytes);
  }

  absl::StatusOr<HostMemory> RegisterHost(int memfd,
                                          absl::Span<std::byte> mapping,
                                          HostUse use) override {
    if (door_.path.empty()) return Endpoint::RegisterHost(memfd, mapping, use);
    return Known(SharedRegion::Adopt(memfd, mapping, use, door_),
                 mapping.size());
  }

 protected:
  bool Sound(const HostMemory& memory) override {
    return regions_.Settled(memory.bytes());
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

 private:
  static absl::Status Lost() {
    return absl::UnavailableError(
        "memory of a GPU is not shared with the server any more");
  }

  using Slices = absl::Span<const std::string_view>;

  std::optional<ServerSettings> Learn(const CallLimit& limit,
                                      CallControl& control) {
    return settings_.Learn([&] { return GetInfo(limit, control); });
  }

  static size_t BytesOf(const Lending& lending) {
    size_t bytes = 0;
    for (const auto& piece : lending.payload) bytes += piece.size();
    return bytes;
  }

  // Whether a server refused it for the size of its message.
  static bool IsTooLarge(const absl::Status& status) {
    const auto error = GetServerError(status);
    const auto violation = GetFieldViolation(status);
    return error && error->reason == ErrorReason::kTooLarge && violation &&
           violation->field == "request";
  }

  absl::StatusOr<Result> RunLending(const Plan& plan, const Lending& lending,
                                    absl::Span<const Destination> into,
                                    const CallLimit& limit,
                                    CallControl& control) {
    const size_t bytes = BytesOf(lending);
    std::atomic<size_t>& limit_of_server =
        largest_[wire::Index(wire::MethodOf(plan))];
    if (!lending.any() &&
        (bytes >= stream_from_ || bytes > limit_of_server ||
         wire::LayOutPayload(plan, {}).size > wire::kMaxReplyPayloadBytes)) {
      return RunStream(plan, lending, into, limit, control);
    }
    if (!lending.any() && control.on_sent() && bytes >= kFlowingBand &&
        !no_streams_) {
      auto streamed = RunStream(plan, lending, into, limit, control);
      no_streams_ = absl::IsUnimplemented(streamed.status());
      if (!no_streams_) return streamed;
    }
    Trip trip;
    auto result = Ask<Result>(
        RequestOf(plan, lending), limit, control, &trip, [&](Slices reply) {
          return ReadReply(
              plan, reply, into, lending.ranges,
              lending.of_device ? Transport::kCuda : Transport::kShared, trip);
        });
    if (trip.unsure) lending.Settle();
    if (lending.any() || bytes == 0 || !IsTooLarge(result.status())) {
      return result;
    }
    // The payload was not sent. The next one goes straight that way.
    limit_of_server = bytes - 1;
    auto streamed = RunStream(plan, lending, into, limit, control);
    // A server that has no streams says what the message was refused for.
    const bool knows_none = absl::IsUnimplemented(streamed.status());
    return knows_none ? std::move(result) : std::move(streamed);
  }

  absl::StatusOr<Result> RunStream(const Plan& plan, const Lending& lending,
                                   absl::Span<const Destination> into,
                                   const CallLimit& limit,
                                   CallControl& control) {
    if (auto s = CheckApart(lending.payload, into); !s.ok()) return s;
    const auto head = wire::StreamHead(plan, BytesOf(lending));
    if (!head.ok()) return head.status();
    StreamedReply reply(plan, into);
    if (!reply.status().ok()) return reply.status();
    Trip trip;
    {
      StreamSender sender(*head, lending.payload, credentials_);
      const absl::Status sent = exchange_.Run(
          sender.size(),
          [&](grpc::GenericStub& stub, const Approach& approach) {
            return sender.Send(stub, limit, approach, control, &reply);
          },
          limit, control, &trip);
      if (!sent.ok()) return sent;
    }
    return reply.Finish(trip);
  }

  // Nothing where the payload has to go once more, if there is any sense in it:
  // the server does not know such streams, or ended this one when its maxima
  // were known.
  std::optional<absl::StatusOr<Result>> StreamReduced(
      const Plan& plan, absl::Span<const absl::Span<const std::byte>> payload,
      absl::Span<const Destination> into, const CallLimit& limit,
      CallControl& control, Reduction& reduction) {
    size_t bytes = 0;
    for (const auto& piece : payload) bytes += piece.size();
    const auto head = wire::ReducingHead(plan, bytes);
    if (!head.ok()) return head.status();
    StreamedReply reply(plan, into, /*reduces=*/true);
    if (!reply.status().ok()) return reply.status();
    Trip trip;
    absl::Status sent;
    {
      StreamSender sender(*head, payload, credentials_, &reduction);
      sent = exchange_.Run(
          sender.size(),
          [&](grpc::GenericStub& stub, const Approach& approach) {
            absl::Status s =
                sender.Send(stub, limit, approach, control, &reply);
            if (s.ok() || !reduction.found()) return s;
            return absl::AbortedError(s.message());
          },
          limit, control, &trip);
    }
    if (sent.ok()) return reply.Finish(trip);
    const auto violation = GetFieldViolation(sent);
    const bool unknown = absl::IsUnimplemented(sent) ||
                         (violation && violation->field == "request");
    if (reduction.found() || unknown) return std::nullopt;
    return sent;
  }

  absl::StatusOr<HostMemory> Known(const SharedRegion::Made& made,
                                   size_t bytes) {
    if (!made.ok()) return made.status();
    regions_.Add(*made);
    return HostMemory((*made)->bytes().first(bytes), *made, true);
  }

  // Sends a message until it is answered. What `read` makes of the answer.
  template <typename Answer, typename Read>
  absl::StatusOr<Answer> Ask(const absl::StatusOr<Message>& message,
                             const CallLimit& limit, CallControl& control,
                             Trip* trip, Read read) {
    if (!message.ok()) return message.status();
    ReceivedMessage reply;
    if (auto s = exchange_.Run(*message, limit, control, &reply, trip);
        !s.ok()) {
      return s;
    }
    return read(reply.Pieces());
  }

  // Of one message.
  static constexpr size_t kLargestPayload =
      wire::kMaxMessageBytes - wire::kMaxRequestHeadBytes;

  const DoorAddress door_;  // without a path: none
  const ChannelCredentials credentials_;
  const size_t stream_from_;
  std::atomic<bool> no_streams_{false};  // a server has none
  const int channels_;
  // Payloads of one message that no server has refused for their size.
  std::array<std::atomic<size_t>, wire::kTensorMethods.size()> largest_;
  KnownSettings settings_;
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
    return FieldError("memory_socket", "a target of one address",
                      std::string(target));
  }
  const auto credentials = LoadCredentials(target, options.credentials);
  if (!credentials.ok()) return credentials.status();
  return std::make_unique<Remote>(std::string(target), *std::move(places),
                                  options, *credentials);
}

}  // namespace quantd::client
