#include "server/call.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/field_error.h"
#include "server/call_registry.h"

namespace quantd {
namespace {

constexpr char kDeclaredBytes[] = "quantd-request-bytes";
constexpr char kRequestId[] = "quantd-request-id";
constexpr char kPushback[] = "grpc-retry-pushback-ms";

// Up to here a copy into the reply costs less than lending the block.
constexpr size_t kCopiedOutput = 16 << 10;

// Output on its way to the network. The block goes back to its pool before
// the charge goes back to the ledger, or the pool could be asked for more
// than it has: members are destroyed last to first.
struct LentOutput {
  MemoryCharge charge;
  Block block;
};

void ReturnOutput(void* lent) { delete static_cast<LentOutput*>(lent); }

}  // namespace

void Call::Arm(CallEnvironment* env, wire::Method method,
               grpc::ServerCompletionQueue* queue) {
  Call* call = new Call(env, method, queue);
  // Must come first, or a call that is cancelled early is not told so.
  call->context_.AsyncNotifyWhenDone(&call->done_tag_);
  env->service->Request(method, &call->context_, &call->stream_, queue,
                        &call->arrived_tag_);
}

Call::Call(CallEnvironment* env, wire::Method method,
           grpc::ServerCompletionQueue* queue)
    : env_(env), method_(method), queue_(queue), stream_(&context_) {
  record_.rpc = RpcOf(method);
  env_->registry->Created();
}

Call::~Call() {
  LetGo();
  if (stage_ != Stage::kArmed) RecordEnd();
  if (accepted_) env_->registry->Leave(this);
}

void Call::Unref() {
  if (refs_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  CallRegistry* const registry = env_->registry;
  delete this;
  // After the last touch of anything that a shutdown takes down.
  registry->Destroyed();
}

void Call::OnArrived(bool ok) {
  if (!ok) {  // the server shuts down; the done tag will not come
    Unref();
    Unref();
    return;
  }
  Arm(env_, method_, queue_);
  record_.arrived = Clock::now();
  stage_ = Stage::kAdmitting;
  record_.id = env_->ids->Next();
  const auto deadline = context_.deadline();
  if (deadline != std::chrono::system_clock::time_point::max()) {
    deadline_ = absl::FromChrono(deadline);
  }
  accepted_ = env_->registry->Accept(this);
  if (accepted_) {
    Admit();
  } else {
    Fail(Failure::Draining());
  }
  Unref();
}

void Call::Admit() {
  const size_t limit = env_->request_limit[static_cast<int>(method_)];
  declared_bytes_ = limit;
  const auto& metadata = context_.client_metadata();
  if (const auto it = metadata.find(kDeclaredBytes); it != metadata.end()) {
    const std::string text(it->second.data(), it->second.size());
    uint64_t bytes = 0;
    if (!absl::SimpleAtoi(text, &bytes)) {
      return Fail(Failure::BadRequest(
          FieldError(kDeclaredBytes, "a decimal number", "something else")));
    }
    if (bytes > limit) return Fail(Failure::TooLarge("request", bytes, limit));
    declared_ = true;
    declared_bytes_ = bytes;
  }
  if (auto failure = Stopped("on arrival")) return Fail(*failure);
  MemoryLedger::Ask ask;
  ask.need = NeedOf(method_, declared_bytes_);
  ask.deadline = deadline_;
  Ref();  // for OnMemory
  const auto outcome = env_->ledger->Admit(ask, this, &charge_);
  if (outcome == MemoryLedger::Outcome::kWaiting) return;
  if (outcome == MemoryLedger::Outcome::kGranted) {
    Receive();
  } else {
    Fail(Refusal(outcome));
  }
  Unref();
}

void Call::OnMemory(MemoryLedger::Outcome outcome, MemoryCharge charge) {
  if (outcome != MemoryLedger::Outcome::kGranted) {
    Fail(Refusal(outcome));
  } else if (growing_) {
    charge_.Merge(std::move(charge));
    Queue();
  } else {
    charge_ = std::move(charge);
    Receive();
  }
  Unref();
}

void Call::Receive() {
  record_.admitted = Clock::now();
  if (auto failure = Stopped("while waiting for memory")) {
    return Fail(*failure);
  }
  receive_until_ = absl::Now() + env_->max_receive;
  Ref();  // for OnRead
  stage_ = Stage::kReceiving;
  stream_.Read(&buffer_, &read_tag_);
}

void Call::EnforceReceiveTime(absl::Time now) {
  if (stage_ != Stage::kReceiving || now < receive_until_) return;
  // The memory goes back when the read, which this ends, comes back.
  if (!ClaimAnswer()) return;
  const Failure failure = Failure::Deadline(
      "for receiving: the request did not arrive within the server's limit");
  record_.Fail(failure);
  context_.AddTrailingMetadata(kRequestId, record_.id);
  stream_.Finish(failure.ToStatus(), &finished_tag_);
}

void Call::OnRead(bool ok) {
  stage_ = Stage::kPlanning;
  if (!ok) {
    auto failure = Stopped("while receiving");
    Fail(failure ? *failure : Failure::NoMessage());
  } else {
    record_.received = Clock::now();
    PlanRequest();
  }
  Unref();
}

void Call::PlanRequest() {
  record_.request_bytes = buffer_.Length();
  if (record_.request_bytes > declared_bytes_) {
    return Fail(declared_ ? Failure::LongerThanDeclared(record_.request_bytes,
                                                        declared_bytes_)
                          : Failure::TooLarge("request", record_.request_bytes,
                                              declared_bytes_));
  }
  if (auto failure = Stopped("while receiving")) return Fail(*failure);
  charge_.ShrinkReceive(ReceiveNeed(record_.request_bytes));
  // References, not copies.
  if (grpc::Slice single; buffer_.TrySingleSlice(&single).ok()) {
    slices_.push_back(std::move(single));
  } else {
    buffer_.Dump(&slices_);
  }
  buffer_.Clear();
  views_.reserve(slices_.size());
  for (const grpc::Slice& slice : slices_) {
    views_.emplace_back(reinterpret_cast<const char*>(slice.begin()),
                        slice.size());
  }
  auto request = wire::ParseRequest(method_, views_, env_->defaults);
  if (!request.ok()) return Fail(Failure::BadRequest(request.status()));
  request_ = *std::move(request);

  const size_t payload = PayloadNeed(*request_.plan);
  charge_.ShrinkPayload(payload);
  if (charge_.held().payload == payload) return Queue();
  // A shape that needs more than its size let expect.
  const size_t most = env_->ledger->limits().payload[charge_.device()];
  if (payload > most) {
    return Fail(Failure::TooLarge("memory for input, output and scratch",
                                  payload, most));
  }
  MemoryLedger::Ask ask;
  ask.need = {0, payload - charge_.held().payload};
  ask.device = charge_.device();
  ask.grow = true;
  ask.deadline = deadline_;
  growing_ = true;
  Ref();  // for OnMemory
  MemoryCharge more;
  const auto outcome = env_->ledger->Admit(ask, this, &more);
  if (outcome == MemoryLedger::Outcome::kWaiting) return;
  OnMemory(outcome, std::move(more));
}

void Call::Queue() {
  const int device = charge_.device();
  if (env_->engine->RunsInline(device, request_.plan->input_bytes())) {
    if (auto slot = env_->engine->TrySlot(device)) {
      Ref();
      return RunOn(env_->engine->backend(device), std::move(slot));
    }
  }
  stage_ = Stage::kQueued;
  Ref();  // for RunOn
  env_->engine->Submit(device, this);
}

void Call::RunOn(Backend& backend, Engine::SlotLease slot) {
  stage_ = Stage::kRunning;
  record_.device = backend.info().name;
  if (auto failure = Compute(backend, std::move(slot))) Fail(*failure);
  Unref();
}

std::optional<Failure> Call::Compute(Backend& backend, Engine::SlotLease slot) {
  record_.started = Clock::now();
  if (auto failure = Stopped("before the job began")) return failure;
  const auto from_job = [&](const absl::Status& status) {
    if (!absl::IsInvalidArgument(status))
      record_.error = std::string(status.message());
    return Failure::FromJob(status, record_.device, env_->ledger->RetryDelay());
  };
  // Declared after the slot: the job ends before the slot is free.
  absl::StatusOr<std::unique_ptr<Job>> job = backend.Begin(request_.plan);
  if (!job.ok()) return from_job(job.status());
  wire::Gather(request_, views_, (*job)->staging());
  (*job)->Fed(request_.plan->input_bytes());
  views_.clear();
  slices_.clear();
  charge_.ShrinkReceive(0);
  record_.gathered = Clock::now();
  if (auto failure = Stopped("before the job ran")) return failure;
  const absl::StatusOr<JobReport> report = (*job)->Run();
  record_.computed = Clock::now();
  if (!report.ok()) return from_job(report.status());
  record_.device_times = report->times;
  if (auto failure = Stopped("while the job ran")) return failure;
  Block output = (*job)->TakeOutput();
  job->reset();
  charge_.ShrinkPayload(BlockPool::Charge(request_.plan->output_bytes()));
  slot.Reset();
  Reply(record_.device, *report, std::move(output));
  return std::nullopt;
}

void Call::Reply(std::string_view device, const JobReport& report,
                 Block output) {
  if (!ClaimAnswer()) return;
  const std::string head =
      wire::ReplyHead(*request_.plan, report, device, record_.id);
  const size_t size = request_.plan->output_bytes();
  record_.reply_bytes = head.size() + size;
  if (size <= kCopiedOutput) {
    grpc::Slice whole(record_.reply_bytes);
    auto* to = const_cast<uint8_t*>(whole.begin());
    std::memcpy(to, head.data(), head.size());
    if (size != 0) std::memcpy(to + head.size(), output.data(), size);
    output = Block();
    charge_.Reset();
    buffer_ = grpc::ByteBuffer(&whole, 1);
  } else {
    std::byte* const data = output.data();
    auto* lent = new LentOutput{std::move(charge_), std::move(output)};
    const grpc::Slice parts[] = {grpc::Slice(head),
                                 grpc::Slice(data, size, ReturnOutput, lent)};
    buffer_ = grpc::ByteBuffer(parts, 2);
  }
  record_.code = grpc::StatusCode::OK;
  record_.answered = Clock::now();
  context_.AddTrailingMetadata(kRequestId, record_.id);
  stream_.WriteAndFinish(buffer_, grpc::WriteOptions(), grpc::Status::OK,
                         &finished_tag_);
  buffer_.Clear();  // gRPC has its own reference
}

std::optional<Failure> Call::Stopped(std::string_view where) const {
  if (absl::Now() >= deadline_) return Failure::Deadline(where);
  if (cancelled_ || answered_) return Failure::Cancelled();
  return std::nullopt;
}

Failure Call::Refusal(MemoryLedger::Outcome outcome) const {
  if (outcome == MemoryLedger::Outcome::kStopped) return Failure::Draining();
  if (auto failure = Stopped("while waiting for memory")) return *failure;
  return Failure::Busy(env_->ledger->RetryDelay());
}

bool Call::ClaimAnswer() {
  if (answered_.exchange(true)) return false;
  Ref();  // for OnFinished
  stage_ = Stage::kClosing;
  return true;
}

void Call::Fail(const Failure& failure) {
  LetGo();
  if (!ClaimAnswer()) return;
  record_.Fail(failure);
  context_.AddTrailingMetadata(kRequestId, record_.id);
  if (failure.detail.reason() == v1::ErrorDetail::REASON_BUSY) {
    context_.AddTrailingMetadata(
        kPushback, fmt::to_string(failure.detail.retry_delay_ms()));
  }
  if (record_.error.empty()) record_.error = failure.message;
  stream_.Finish(failure.ToStatus(), &finished_tag_);
}

void Call::LetGo() {
  views_.clear();
  slices_.clear();
  buffer_.Clear();
  charge_.Reset();
}

void Call::OnFinished(bool ok) {
  if (ok) record_.sent = Clock::now();
  Unref();
}

void Call::OnDone(bool) {
  if (context_.IsCancelled()) {
    cancelled_ = true;
    // Where it waits in a queue nothing else would wake it.
    if (env_->ledger->Forget(this)) {
      Fail(Refusal(MemoryLedger::Outcome::kTimedOut));
      Unref();
    } else if (stage_ == Stage::kQueued &&
               env_->engine->Withdraw(charge_.device(), this)) {
      Fail(*Stopped("while waiting for a device"));
      Unref();
    }
  }
  Unref();
}

void Call::RecordEnd() {
  record_.ended = Clock::now();
  env_->metrics->Record(record_);
  if (!WouldLog(record_)) return;
  std::string shape;
  if (request_.plan != nullptr) {
    shape = fmt::format("{}", fmt::join(request_.plan->tensor().shape, "x"));
  }
  LogCall(record_, shape);
}

}  // namespace quantd
