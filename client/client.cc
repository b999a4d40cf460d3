#include "client/client.h"

#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <utility>

#include "client/net/address.h"
#include "client/net/channel.h"
#include "client/net/channel_credentials.h"
#include "client/net/client_options.h"
#include "client/net/exchange.h"
#include "client/net/replies.h"
#include "client/net/requests.h"
#include "client/net/servers.h"
#include "client/net/transport.h"
#include "client/net/worker_pool.h"
#include "fmt/format.h"
#include "kernels/plan/field_error.h"
#include "proto/net/received_message.h"

namespace quantd {

using client::CallControl;
using client::Message;
using client::Time;
using std::chrono::milliseconds;

class Client::Impl {
 public:
  Impl(std::string target, std::vector<client::Place> places,
       const ClientOptions& options,
       const client::ChannelCredentials& credentials)
      : options_(options),
        servers_(std::move(places),
                 client::ChannelFactory(options, credentials),
                 options.channels),
        exchange_(std::move(target), options.retry, credentials, &servers_) {}
  ~Impl();

  const std::string& target() const { return exchange_.target(); }
  Time DeadlineOf(const CallOptions& call) const;

  absl::StatusOr<Result> RunOnInput(const absl::StatusOr<Plan>& plan,
                                    absl::Span<const std::byte> input,
                                    const CallOptions& call, Time deadline);
  absl::StatusOr<Result> Dequantize(const TensorDesc& tensor,
                                    const QuantizedBytes& quantized,
                                    const DequantizeOptions& options,
                                    const CallOptions& call, Time deadline);

  // Plan to Result: everything but the plan's own making.
  absl::StatusOr<Result> Run(const Plan& plan,
                             std::vector<absl::Span<const std::byte>> payload,
                             const CallOptions& call, Time deadline);

  // Sends and sends again. Fills `reply` and `attempts`.
  absl::Status Send(const Message& message, const CallOptions& call,
                    Time deadline, ReceivedMessage* reply, int* attempts);

  // Runs `work` on a thread of this client.
  std::future<absl::StatusOr<Result>> Async(
      Time deadline, std::function<absl::StatusOr<Result>()> work);

 private:
  // A call under way, known to the destructor.
  class Scope;

  milliseconds LimitOf(const CallOptions& call) const {
    return call.deadline.count() == 0 ? options_.deadline : call.deadline;
  }

  const ClientOptions options_;
  client::Servers servers_;
  client::Exchange exchange_;

  std::mutex mutex_;
  std::condition_variable idle_;
  std::list<CallControl*> calls_;
  bool closing_ = false;
  // The last member: its threads use all of the above.
  client::WorkerPool workers_{options_.max_in_flight};
};

class Client::Impl::Scope {
 public:
  Scope(Impl* impl, CallControl* control) : impl_(impl) {
    std::lock_guard lock(impl_->mutex_);
    place_ = impl_->calls_.insert(impl_->calls_.end(), control);
    if (impl_->closing_) control->Cancel();
  }
  ~Scope() {
    std::lock_guard lock(impl_->mutex_);
    impl_->calls_.erase(place_);
    // Under the lock: after it the client may be gone.
    if (impl_->calls_.empty()) impl_->idle_.notify_all();
  }

 private:
  Impl* impl_;
  std::list<CallControl*>::iterator place_;
};

Client::Impl::~Impl() {
  std::unique_lock lock(mutex_);
  closing_ = true;
  for (CallControl* call : calls_) call->Cancel();
  idle_.wait(lock, [&] { return calls_.empty(); });
}

Time Client::Impl::DeadlineOf(const CallOptions& call) const {
  // A month is for ever, and no sum overflows.
  constexpr milliseconds kForever = std::chrono::hours(24 * 30);
  return std::chrono::system_clock::now() + std::min(LimitOf(call), kForever);
}

absl::Status Client::Impl::Send(const Message& message, const CallOptions& call,
                                Time deadline, ReceivedMessage* reply,
                                int* attempts) {
  CallControl control;
  const Scope scope(this, &control);
  std::optional<CancellationToken::Registration> stop;
  if (call.cancel) stop.emplace(*call.cancel, [&] { control.Cancel(); });
  return exchange_.Run(message, {LimitOf(call), deadline}, control, reply,
                       attempts);
}

absl::StatusOr<Result> Client::Impl::Run(
    const Plan& plan, std::vector<absl::Span<const std::byte>> payload,
    const CallOptions& call, Time deadline) {
  if (auto s = client::CheckDestinations(plan, call.into); !s.ok()) return s;
  const auto message = client::RequestOf(plan, std::move(payload));
  if (!message.ok()) return message.status();
  ReceivedMessage reply;
  int attempts = 0;
  if (auto s = Send(*message, call, deadline, &reply, &attempts); !s.ok()) {
    return s;
  }
  return client::ReadReply(plan, reply.Pieces(), call.into, attempts);
}

std::future<absl::StatusOr<Result>> Client::Impl::Async(
    Time deadline, std::function<absl::StatusOr<Result>()> work) {
  // Shared: std::function must be copyable, a promise is not.
  const auto promise = std::make_shared<std::promise<absl::StatusOr<Result>>>();
  auto future = promise->get_future();
  const bool accepted =
      workers_.Run(deadline, [promise, work] { promise->set_value(work()); });
  if (!accepted) {
    promise->set_value(absl::DeadlineExceededError(
        fmt::format("{} asynchronous calls were under way until the deadline",
                    options_.max_in_flight)));
  }
  return future;
}

absl::StatusOr<std::unique_ptr<Client>> Client::Create(
    std::string_view target, const ClientOptions& options) {
  if (auto s = client::CheckOptions(options); !s.ok()) return s;
  auto places = client::ParseTarget(target);
  if (!places.ok()) return places.status();
  const auto credentials = client::LoadCredentials(target, options.credentials);
  if (!credentials.ok()) return credentials.status();
  return std::unique_ptr<Client>(new Client(std::make_unique<Impl>(
      std::string(target), *std::move(places), options, *credentials)));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;
const std::string& Client::target() const { return impl_->target(); }

namespace {

using Bytes = absl::Span<const std::byte>;

absl::Status CheckSize(std::string_view field, size_t expected, Bytes got) {
  if (got.size() == expected) return absl::OkStatus();
  return FieldError(field, fmt::format("{} bytes", expected),
                    fmt::format("{} bytes", got.size()));
}

}  // namespace

absl::StatusOr<Result> Client::Impl::RunOnInput(
    const absl::StatusOr<Plan>& plan, Bytes input, const CallOptions& call,
    Time deadline) {
  if (!plan.ok()) return plan.status();
  if (auto s = CheckSize("payload", plan->input_bytes(), input); !s.ok()) {
    return s;
  }
  return Run(*plan, {input}, call, deadline);
}

absl::StatusOr<Result> Client::Impl::Dequantize(
    const TensorDesc& tensor, const QuantizedBytes& quantized,
    const DequantizeOptions& options, const CallOptions& call, Time deadline) {
  const auto plan = MakeDequantizePlan(tensor, options);
  if (!plan.ok()) return plan.status();
  const std::vector<TensorSpec>& parts = plan->inputs();
  const bool profile = options.profile != Profile::kTe;
  const absl::Span<const float> whole =
      profile ? quantized.global : quantized.amax;
  std::vector<Bytes> payload = {
      quantized.data, quantized.scale,
      Bytes(reinterpret_cast<const std::byte*>(whole.data()),
            whole.size() * sizeof(float))};
  // Most formats are decoded without an amax.
  payload.resize(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (auto s = CheckSize(Name(parts[i].kind), parts[i].size, payload[i]);
        !s.ok()) {
      return s;
    }
  }
  return Run(*plan, std::move(payload), call, deadline);
}

absl::StatusOr<ServerInfo> Client::GetServerInfo(const CallOptions& call) {
  ReceivedMessage reply;
  int attempts = 0;
  if (auto s = impl_->Send(client::ServerInfoRequest(), call,
                           impl_->DeadlineOf(call), &reply, &attempts);
      !s.ok()) {
    return s;
  }
  return client::ReadServerInfo(reply.Pieces());
}

absl::StatusOr<QuantizeDescription> Client::DescribeQuantize(
    const TensorDesc& tensor, const QuantizeOptions& options,
    const CallOptions& call) {
  const auto plan = MakeQuantizePlan(tensor, options);
  if (!plan.ok()) return plan.status();
  const auto message = client::DescribeRequestOf(*plan);
  if (!message.ok()) return message.status();
  ReceivedMessage reply;
  int attempts = 0;
  if (auto s = impl_->Send(*message, call, impl_->DeadlineOf(call), &reply,
                           &attempts);
      !s.ok()) {
    return s;
  }
  return client::ReadDescription(reply.Pieces());
}

absl::StatusOr<Result> Client::Dequantize(const TensorDesc& tensor,
                                          const QuantizedBytes& quantized,
                                          const DequantizeOptions& options,
                                          const CallOptions& call) {
  return impl_->Dequantize(tensor, quantized, options, call,
                           impl_->DeadlineOf(call));
}

absl::StatusOr<Result> Client::Run(const absl::StatusOr<Plan>& plan,
                                   Bytes input, const CallOptions& call) {
  return impl_->RunOnInput(plan, input, call, impl_->DeadlineOf(call));
}

std::future<absl::StatusOr<Result>> Client::RunAsync(absl::StatusOr<Plan> plan,
                                                     Bytes input,
                                                     const CallOptions& call) {
  const Time deadline = impl_->DeadlineOf(call);
  // Shared: a plan of many groups is long.
  const auto shared =
      std::make_shared<const absl::StatusOr<Plan>>(std::move(plan));
  return impl_->Async(deadline, [=, impl = impl_.get()] {
    return impl->RunOnInput(*shared, input, call, deadline);
  });
}

std::future<absl::StatusOr<Result>> Client::DequantizeAsync(
    TensorDesc tensor, QuantizedBytes quantized, DequantizeOptions options,
    CallOptions call) {
  const Time deadline = impl_->DeadlineOf(call);
  return impl_->Async(deadline, [=, impl = impl_.get()] {
    return impl->Dequantize(tensor, quantized, options, call, deadline);
  });
}

}  // namespace quantd
