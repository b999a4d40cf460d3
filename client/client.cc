#include "client/client.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <random>
#include <utility>

#include "client/channel_credentials.h"
#include "client/client_options.h"
#include "client/messages.h"
#include "client/retry.h"
#include "client/server_status.h"
#include "client/transport.h"
#include "client/worker_pool.h"
#include "fmt/format.h"
#include "kernels/field_error.h"

namespace quantd {

using client::CallControl;
using client::Message;
using client::Time;
using std::chrono::milliseconds;

namespace {

std::vector<std::string_view> Views(const std::vector<grpc::Slice>& slices) {
  std::vector<std::string_view> views;
  views.reserve(slices.size());
  for (const grpc::Slice& s : slices) {
    views.emplace_back(reinterpret_cast<const char*>(s.begin()), s.size());
  }
  return views;
}

}  // namespace

class Client::Impl {
 public:
  Impl(const std::string& target, const ClientOptions& options,
       const client::ChannelCredentials& credentials)
      : options_(options), transport_(target, options, credentials) {}
  ~Impl();

  const std::string& target() const { return transport_.target(); }
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
  absl::Status Exchange(const Message& message, const CallOptions& call,
                        Time deadline, std::vector<grpc::Slice>* reply,
                        int* attempts);

  // Runs `work` on a thread of this client.
  std::future<absl::StatusOr<Result>> Async(
      Time deadline, std::function<absl::StatusOr<Result>()> work);

 private:
  // A call under way, known to the destructor.
  class Scope;

  absl::Status Explain(const absl::Status& status, int attempts,
                       const CallOptions& call) const;

  const ClientOptions options_;
  client::Transport transport_;
  client::RetryBudget budget_;
  std::atomic<uint64_t> seed_{std::random_device{}()};

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
  const milliseconds wanted =
      call.deadline.count() == 0 ? options_.deadline : call.deadline;
  return std::chrono::system_clock::now() + std::min(wanted, kForever);
}

absl::Status Client::Impl::Explain(const absl::Status& status, int attempts,
                                   const CallOptions& call) const {
  std::string text(status.message());
  const bool ours = GetRequestId(status).empty();
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      if (ours) {
        text = fmt::format("cannot reach a quantd server at {}: {}", target(),
                           text);
      }
      break;
    case absl::StatusCode::kDeadlineExceeded:
      if (ours) {
        const auto limit =
            call.deadline.count() == 0 ? options_.deadline : call.deadline;
        text = fmt::format("no reply from {} within {} ms", target(),
                           limit.count());
      }
      break;
    default:
      break;
  }
  if (!ours) text += fmt::format(" (request id {})", GetRequestId(status));
  if (attempts > 1) text += fmt::format(" (sent {} times)", attempts);
  return client::Annotate(status, text, attempts);
}

absl::Status Client::Impl::Exchange(const Message& message,
                                    const CallOptions& call, Time deadline,
                                    std::vector<grpc::Slice>* reply,
                                    int* attempts) {
  CallControl control;
  const Scope scope(this, &control);
  std::optional<CancellationToken::Registration> stop;
  if (call.cancel) stop.emplace(*call.cancel, [&] { control.Cancel(); });
  client::Backoff backoff(options_.retry, &budget_, seed_++);
  *attempts = 0;
  for (;;) {
    if (control.cancelled()) {
      return Explain(absl::CancelledError("cancelled by the caller"), *attempts,
                     call);
    }
    ++*attempts;
    const absl::Status status =
        transport_.Send(message, deadline, control, reply);
    if (status.ok()) {
      budget_.Refund();
      return status;
    }
    if (control.cancelled()) continue;
    const auto delay = backoff.Next(status);
    const Time next =
        std::chrono::system_clock::now() + delay.value_or(milliseconds(0));
    // The last word of the server tells more than "deadline exceeded" would.
    if (!delay || next >= deadline) return Explain(status, *attempts, call);
    control.SleepUntil(next);
  }
}

absl::StatusOr<Result> Client::Impl::Run(
    const Plan& plan, std::vector<absl::Span<const std::byte>> payload,
    const CallOptions& call, Time deadline) {
  if (auto s = client::CheckDestinations(plan, call.into); !s.ok()) return s;
  size_t size = 0;
  for (const auto& piece : payload) size += piece.size();
  auto head = client::RequestHead(plan, size);
  if (!head.ok()) return head.status();
  const Message message{client::MethodPath(plan), *std::move(head),
                        std::move(payload)};
  std::vector<grpc::Slice> reply;
  int attempts = 0;
  if (auto s = Exchange(message, call, deadline, &reply, &attempts); !s.ok()) {
    return s;
  }
  return client::ReadReply(plan, Views(reply), call.into, attempts);
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
  if (auto s = client::CheckOptions(target, options); !s.ok()) return s;
  const auto credentials = client::LoadCredentials(target, options.credentials);
  if (!credentials.ok()) return credentials.status();
  return std::unique_ptr<Client>(new Client(
      std::make_unique<Impl>(std::string(target), options, *credentials)));
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
  std::vector<Bytes> payload = {
      quantized.data, quantized.scale,
      Bytes(reinterpret_cast<const std::byte*>(quantized.amax.data()),
            quantized.amax.size() * sizeof(float))};
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
  std::vector<grpc::Slice> reply;
  int attempts = 0;
  if (auto s = impl_->Exchange({client::kServerInfoPath, "", {}}, call,
                               impl_->DeadlineOf(call), &reply, &attempts);
      !s.ok()) {
    return s;
  }
  return client::ReadServerInfo(Views(reply));
}

absl::StatusOr<QuantizeDescription> Client::DescribeQuantize(
    const TensorDesc& tensor, const QuantizeOptions& options,
    const CallOptions& call) {
  const auto plan = MakeQuantizePlan(tensor, options);
  if (!plan.ok()) return plan.status();
  auto head = client::RequestHead(*plan, 0);
  if (!head.ok()) return head.status();
  std::vector<grpc::Slice> reply;
  int attempts = 0;
  if (auto s =
          impl_->Exchange({client::kDescribePath, *std::move(head), {}}, call,
                          impl_->DeadlineOf(call), &reply, &attempts);
      !s.ok()) {
    return s;
  }
  return client::ReadDescription(Views(reply));
}

absl::StatusOr<Result> Client::Quantize(const TensorDesc& tensor, Bytes input,
                                        const QuantizeOptions& options,
                                        const CallOptions& call) {
  return impl_->RunOnInput(MakeQuantizePlan(tensor, options), input, call,
                           impl_->DeadlineOf(call));
}

absl::StatusOr<Result> Client::Dequantize(const TensorDesc& tensor,
                                          const QuantizedBytes& quantized,
                                          const DequantizeOptions& options,
                                          const CallOptions& call) {
  return impl_->Dequantize(tensor, quantized, options, call,
                           impl_->DeadlineOf(call));
}

absl::StatusOr<Result> Client::RhtAmax(const TensorDesc& tensor, Bytes input,
                                       const RhtAmaxOptions& options,
                                       const CallOptions& call) {
  return impl_->RunOnInput(MakeRhtAmaxPlan(tensor, options), input, call,
                           impl_->DeadlineOf(call));
}

absl::StatusOr<Result> Client::ApplyRht(const TensorDesc& tensor, Bytes input,
                                        const ApplyRhtOptions& options,
                                        const CallOptions& call) {
  return impl_->RunOnInput(MakeApplyRhtPlan(tensor, options), input, call,
                           impl_->DeadlineOf(call));
}

std::future<absl::StatusOr<Result>> Client::QuantizeAsync(
    TensorDesc tensor, Bytes input, QuantizeOptions options, CallOptions call) {
  const Time deadline = impl_->DeadlineOf(call);
  return impl_->Async(deadline, [=, impl = impl_.get()] {
    return impl->RunOnInput(MakeQuantizePlan(tensor, options), input, call,
                            deadline);
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

std::future<absl::StatusOr<Result>> Client::RhtAmaxAsync(TensorDesc tensor,
                                                         Bytes input,
                                                         RhtAmaxOptions options,
                                                         CallOptions call) {
  const Time deadline = impl_->DeadlineOf(call);
  return impl_->Async(deadline, [=, impl = impl_.get()] {
    return impl->RunOnInput(MakeRhtAmaxPlan(tensor, options), input, call,
                            deadline);
  });
}

std::future<absl::StatusOr<Result>> Client::ApplyRhtAsync(
    TensorDesc tensor, Bytes input, ApplyRhtOptions options, CallOptions call) {
  const Time deadline = impl_->DeadlineOf(call);
  return impl_->Async(deadline, [=, impl = impl_.get()] {
    return impl->RunOnInput(MakeApplyRhtPlan(tensor, options), input, call,
                            deadline);
  });
}

}  // namespace quantd
