#include "client/net/remote.h"

#include <string>
#include <utility>
#include <vector>

#include "client/net/address.h"
#include "client/net/channel.h"
#include "client/net/channel_credentials.h"
#include "client/net/exchange.h"
#include "client/net/replies.h"
#include "client/net/requests.h"
#include "client/net/servers.h"

namespace quantd::client {
namespace {

class Remote : public Endpoint {
 public:
  Remote(std::string target, std::vector<Place> places,
         const ClientOptions& options, const ChannelCredentials& credentials)
      : servers_(std::move(places), ChannelFactory(options, credentials),
                 options.channels),
        exchange_(std::move(target), options.retry, credentials, &servers_) {}

  const std::string& target() const override { return exchange_.target(); }

  absl::StatusOr<Result> Run(
      const Plan& plan, absl::Span<const absl::Span<const std::byte>> payload,
      absl::Span<const Destination> into, const CallLimit& limit,
      CallControl& control) override {
    return Ask<Result>(RequestOf(plan, {payload.begin(), payload.end()}), limit,
                       control, [&](Slices reply, int attempts) {
                         return ReadReply(plan, reply, into, attempts);
                       });
  }

  absl::StatusOr<QuantizeDescription> Describe(const Plan& plan,
                                               const CallLimit& limit,
                                               CallControl& control) override {
    return Ask<QuantizeDescription>(
        DescribeRequestOf(plan), limit, control,
        [](Slices reply, int) { return ReadDescription(reply); });
  }

  absl::StatusOr<ServerInfo> GetInfo(const CallLimit& limit,
                                     CallControl& control) override {
    return Ask<ServerInfo>(
        ServerInfoRequest(), limit, control,
        [](Slices reply, int) { return ReadServerInfo(reply); });
  }

 private:
  using Slices = absl::Span<const std::string_view>;

  // Sends a message until it is answered. What `read` makes of the answer and
  // of how often the message was sent.
  template <typename Answer, typename Read>
  absl::StatusOr<Answer> Ask(const absl::StatusOr<Message>& message,
                             const CallLimit& limit, CallControl& control,
                             Read read) {
    if (!message.ok()) return message.status();
    ReceivedMessage reply;
    int attempts = 0;
    if (auto s = exchange_.Run(*message, limit, control, &reply, &attempts);
        !s.ok()) {
      return s;
    }
    return read(reply.Pieces(), attempts);
  }

  Servers servers_;
  Exchange exchange_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Endpoint>> OpenRemote(
    std::string_view target, const ClientOptions& options) {
  auto places = ParseTarget(target);
  if (!places.ok()) return places.status();
  const auto credentials = LoadCredentials(target, options.credentials);
  if (!credentials.ok()) return credentials.status();
  return std::make_unique<Remote>(std::string(target), *std::move(places),
                                  options, *credentials);
}

}  // namespace quantd::client
