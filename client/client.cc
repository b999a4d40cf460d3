// The way of a call: Client::Quantize makes a Plan, which checks the options,
// and calls Run, which checks the sizes and registers the call. Router::Run
// (client/route/router.h) chooses the transport, by ChooseRoute. Endpoint::Run
// (client/net/remote.cc, or client/local/local_devices.cc) makes the call.
// Exchange::Run (client/net/exchange.h) picks a server and retries. Sender or
// StreamSender makes one attempt and waits for it. ResultBuilder
// (client/tensors/result_builder.h) allocates the result's memory, unless the
// caller gave it, and messages are copied there once.
//
// All of this runs on the caller's thread, or on a WorkerPool's thread for an
// asynchronous call. A call in bands also uses threads of client/bands.
#include "quantd/client.h"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include "client/call/call_control.h"
#include "client/call/endpoint.h"
#include "client/call/reduction.h"
#include "client/net/client_options.h"
#include "client/net/remote.h"
#include "client/net/worker_pool.h"
#include "client/route/router.h"
#include "client/tensors/result_builder.h"
#include "fmt/format.h"
#include "proto/answers.h"
#include "proto/net/trace_context.h"
#include "proto/wire.h"
#include "quantd.pb.h"
#include "quantd/field_error.h"

namespace quantd {

using client::CallControl;
using client::CallLimit;
using client::Endpoint;
using client::Time;
using std::chrono::milliseconds;

namespace {

absl::Status CheckTrace(const std::string& traceparent) {
  if (traceparent.empty() || wire::ParseTraceparent(traceparent)) {
    return absl::OkStatus();
  }
  return FieldError("traceparent", "a W3C Trace Context value", traceparent);
}

}  // namespace

class Client::Impl {
 public:
  Impl(std::unique_ptr<Endpoint> endpoint, const ClientOptions& options)
      : options_(options),
        endpoint_(std::move(endpoint)),
        router_(endpoint_.get(), options) {}
  ~Impl();

  const std::string& target() const { return endpoint_->target(); }
  Endpoint& endpoint() { return *endpoint_; }
  Time DeadlineOf(const CallOptions& call) const;

  absl::StatusOr<Result> RunOnInput(const absl::StatusOr<Plan>& plan,
                                    absl::Span<const std::byte> input,
                                    const CallOptions& call, Time deadline);
  absl::StatusOr<Result> Dequantize(const TensorDesc& tensor,
                                    const QuantizedBytes& quantized,
                                    const DequantizeOptions& options,
                                    const CallOptions& call, Time deadline);

  absl::StatusOr<Result> RunReduced(const Plan& plan,
                                    absl::Span<const std::byte> input,
                                    const CallOptions& call, Time deadline,
                                    client::Reduction* reduction);

  // Runs a plan on the input pieces `in`.
  absl::StatusOr<Result> Run(const Plan& plan,
                             absl::Span<const absl::Span<const std::byte>> in,
                             const CallOptions& call, Time deadline);

  // Returns `work(limit, control)`. The client's destructor and the caller's
  // CancellationToken cancel the work.
  template <typename Work>
  auto Call(const CallOptions& call, Time deadline, Work work) {
    using Answer = decltype(work(CallLimit(), *calls_.front()));
    if (auto s = CheckTrace(call.traceparent); !s.ok()) return Answer(s);
    CallControl control;
    const Scope scope(this, &control);
    std::optional<CancellationToken::Registration> stop;
    if (call.cancel) stop.emplace(*call.cancel, [&] { control.Cancel(); });
    return work(
        CallLimit{LimitOf(call), deadline, call.traceparent, call.priority},
        control);
  }

  // Runs `work` on a thread of this client.
  std::future<absl::StatusOr<Result>> Async(
      Time deadline, std::function<absl::StatusOr<Result>()> work);

 private:
  // A call in progress, registered for the destructor.
  class Scope {
   public:
    Scope(Impl* impl, CallControl* control) : impl_(impl) {
      std::lock_guard lock(impl_->mutex_);
      place_ = impl_->calls_.insert(impl_->calls_.end(), control);
      if (impl_->closing_) control->Cancel();
    }
    ~Scope() {
      std::lock_guard lock(impl_->mutex_);
      impl_->calls_.erase(place_);
      // Notifies while holding the lock. Otherwise the client could be
      // destroyed before notify_all.
      if (impl_->calls_.empty()) impl_->idle_.notify_all();
    }

   private:
    Impl* impl_;
    std::list<CallControl*>::iterator place_;
  };

  milliseconds LimitOf(const CallOptions& call) const {
    return call.deadline.count() == 0 ? options_.deadline : call.deadline;
  }

  const ClientOptions options_;
  const std::unique_ptr<Endpoint> endpoint_;
  client::Router router_;

  std::mutex mutex_;
  std::condition_variable idle_;
  std::list<CallControl*> calls_;
  bool closing_ = false;
  // The last member: its threads use all of the above.
  client::WorkerPool workers_{options_.max_in_flight};
};

Client::Impl::~Impl() {
  std::unique_lock lock(mutex_);
  closing_ = true;
  for (CallControl* call : calls_) call->Cancel();
  idle_.wait(lock, [&] { return calls_.empty(); });
}

Time Client::Impl::DeadlineOf(const CallOptions& call) const {
  // Longer limits are cut to a month, so that the sum cannot overflow.
  constexpr milliseconds kForever = std::chrono::hours(24 * 30);
  return std::chrono::system_clock::now() + std::min(LimitOf(call), kForever);
}

absl::StatusOr<Result> Client::Impl::Run(
    const Plan& plan, absl::Span<const absl::Span<const std::byte>> in,
    const CallOptions& call, Time deadline) {
  if (auto s = CheckDestinations(plan, call.into); !s.ok()) return s;
  return Call(
      call, deadline, [&](const CallLimit& limit, CallControl& control) {
        return router_.Run({plan, in, call.into, call.events, limit, control},
                           call.progress);
      });
}

std::future<absl::StatusOr<Result>> Client::Impl::Async(
    Time deadline, std::function<absl::StatusOr<Result>()> work) {
  // Shared because std::function must be copyable and a promise is not.
  const auto promise = std::make_shared<std::promise<absl::StatusOr<Result>>>();
  auto future = promise->get_future();
  const bool accepted =
      workers_.Run(deadline, [promise, work] { promise->set_value(work()); });
  if (!accepted) {
    promise->set_value(absl::DeadlineExceededError(
        fmt::format("{} asynchronous calls were in flight until the deadline",
                    options_.max_in_flight)));
  }
  return future;
}

absl::StatusOr<std::unique_ptr<Client>> Client::Make(
    const ClientOptions& options,
    const std::function<absl::StatusOr<std::unique_ptr<Endpoint>>()>& open) {
  if (auto s = client::CheckOptions(options); !s.ok()) return s;
  auto endpoint = open();
  if (!endpoint.ok()) return endpoint.status();
  return std::unique_ptr<Client>(
      new Client(std::make_unique<Impl>(*std::move(endpoint), options)));
}

absl::StatusOr<std::unique_ptr<Client>> Client::Create(
    std::string_view target, const ClientOptions& options) {
  return Make(options, [&]() -> absl::StatusOr<std::unique_ptr<Endpoint>> {
    if (!client::LocalDevice(target)) {
      return client::OpenRemote(target, options);
    }
    return absl::UnimplementedError(
        "this program can only work with servers: link quantd::local and call "
        "CreateClient to work in the process");
  });
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
  return Run(*plan, {&input, 1}, call, deadline);
}

absl::StatusOr<Result> Client::Impl::RunReduced(const Plan& plan, Bytes input,
                                                const CallOptions& call,
                                                Time deadline,
                                                client::Reduction* reduction) {
  if (auto s = CheckSize("payload", plan.input_bytes(), input); !s.ok()) {
    return s;
  }
  if (auto s = CheckDestinations(plan, call.into); !s.ok()) return s;
  return Call(call, deadline,
              [&](const CallLimit& limit, CallControl& control) {
                auto result = router_.RunReduced(
                    {plan, {&input, 1}, call.into, call.events, limit, control},
                    *reduction);
                if (result.ok() && call.progress) {
                  call.progress(input.size(), input.size());
                }
                return result;
              });
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
  // Most formats are decoded without an amax or a global scale.
  payload.resize(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (auto s = CheckSize(Name(parts[i].kind), parts[i].size, payload[i]);
        !s.ok()) {
      return s;
    }
  }
  return Run(*plan, payload, call, deadline);
}

absl::StatusOr<HostMemory> Client::AllocateHost(size_t bytes) {
  if (bytes == 0) return FieldError("bytes", "at least 1", "0");
  return impl_->endpoint().AllocateHost(bytes);
}

absl::StatusOr<HostMemory> Client::TakeHost(size_t bytes) {
  if (bytes == 0) return FieldError("bytes", "at least 1", "0");
  return impl_->endpoint().TakeHost(bytes);
}

absl::StatusOr<HostMemory> Client::RegisterHost(int memfd,
                                                absl::Span<std::byte> mapping,
                                                HostUse use) {
  return impl_->endpoint().RegisterHost(memfd, mapping, use);
}

absl::StatusOr<DeviceMemory> Client::AllocateDevice(int ordinal, size_t bytes) {
  if (bytes == 0) return FieldError("bytes", "at least 1", "0");
  return impl_->endpoint().AllocateDevice(ordinal, bytes);
}

absl::StatusOr<DeviceMemory> Client::RegisterDevice(const void* address) {
  return impl_->endpoint().RegisterDevice(address);
}

absl::StatusOr<DeviceEvent> Client::RegisterEvent(int ordinal, void* event) {
  return impl_->endpoint().RegisterEvent(ordinal, event);
}

absl::StatusOr<std::string> Client::Ask(wire::Method method,
                                        const std::string& request,
                                        const CallOptions& call) {
  return impl_->Call(call, impl_->DeadlineOf(call),
                     [&](const CallLimit& limit, CallControl& control) {
                       return impl_->endpoint().Ask(method, request, limit,
                                                    control);
                     });
}

absl::StatusOr<ServerInfo> Client::GetServerInfo(const CallOptions& call) {
  const auto reply = client::Parsed<v1::GetServerInfoReply>(
      Ask(wire::Method::kGetServerInfo, "", call));
  if (!reply.ok()) return reply.status();
  return wire::FromProto(*reply);
}

absl::StatusOr<QuantizeDescription> Client::DescribeQuantize(
    const TensorDesc& tensor, const QuantizeOptions& options,
    const CallOptions& call) {
  const auto plan = MakeQuantizePlan(tensor, options);
  if (!plan.ok()) return plan.status();
  const auto request = wire::RequestHead(*plan, 0);
  if (!request.ok()) return request.status();
  const auto reply = client::Parsed<v1::DescribeQuantizeReply>(
      Ask(wire::Method::kDescribeQuantize, *request, call));
  if (!reply.ok()) return reply.status();
  return wire::FromProto(*reply);
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
  // Shared because a plan of many groups is large.
  const auto shared =
      std::make_shared<const absl::StatusOr<Plan>>(std::move(plan));
  return impl_->Async(deadline, [=, impl = impl_.get()] {
    return impl->RunOnInput(*shared, input, call, deadline);
  });
}

std::future<absl::StatusOr<Result>> Client::RunReducedAsync(
    Plan plan, Bytes input, const CallOptions& call,
    client::Reduction* reduction,
    std::function<void(const absl::Status&)> ended) {
  const Time deadline = impl_->DeadlineOf(call);
  const auto shared = std::make_shared<const Plan>(std::move(plan));
  return impl_->Async(deadline, [=, impl = impl_.get()] {
    auto result = impl->RunReduced(*shared, input, call, deadline, reduction);
    ended(result.status());
    return result;
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
