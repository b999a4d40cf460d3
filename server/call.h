// One tensor RPC, from the arrival of its headers to the end of its stream.
//
//   armed -> admitting -> receiving -> planning -> queued -> running -> closing
//
// The call is matched on its headers, before its message is read, so memory
// is admitted before it is used. At most one thread moves a call forward at
// any time: its completion queue's, the ledger's or a worker. Each pending
// event (a tag, a place in a queue) holds a reference; the last one frees it.
#ifndef QUANTD_SERVER_CALL_H_
#define QUANTD_SERVER_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/wire.h"
#include "server/call_record.h"
#include "server/completion_tag.h"
#include "server/engine.h"
#include "server/failure.h"
#include "server/ledger.h"
#include "server/metrics.h"
#include "server/request_ids.h"
#include "server/sizing.h"
#include "server/tensor_service.h"

namespace quantd {

class CallRegistry;

// What all calls share. Outlives them.
struct CallEnvironment {
  TensorService* service = nullptr;
  MemoryLedger* ledger = nullptr;
  Engine* engine = nullptr;
  CallRegistry* registry = nullptr;
  size_t request_limit[std::size(wire::kMethods)] = {};  // by Method
  absl::Duration max_receive = absl::Minutes(1);
  wire::RequestDefaults defaults;
  RequestIds* ids = nullptr;
  Metrics* metrics = nullptr;
};

class Call : private MemoryLedger::Waiter, private Engine::Work {
 public:
  // Waits for one call of that method on `queue`. Owns itself. A call that
  // arrives arms its successor.
  static void Arm(CallEnvironment* env, wire::Method method,
                  grpc::ServerCompletionQueue* queue);

  // Ends the call if its message has not arrived in time. Any thread, while
  // the registry holds the call.
  void EnforceReceiveTime(absl::Time now);

  Call(const Call&) = delete;

 private:
  friend class CallRegistry;
  enum class Stage {
    kArmed,
    kAdmitting,
    kReceiving,
    kPlanning,
    kQueued,
    kRunning,
    kClosing,
  };
  using Clock = CallRecord::Clock;

  Call(CallEnvironment* env, wire::Method method,
       grpc::ServerCompletionQueue* queue);
  ~Call() override;
  void Ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void Unref();

  // Tags.
  void OnArrived(bool ok);
  void OnRead(bool ok);
  void OnFinished(bool ok);
  void OnDone(bool ok);

  // The steps.
  void Admit();
  void OnMemory(MemoryLedger::Outcome outcome, MemoryCharge charge) override;
  void Receive();
  void PlanRequest();
  void Queue();
  void RunOn(Backend& backend, Engine::SlotLease slot) override;
  std::optional<Failure> Compute(Backend& backend, Engine::SlotLease slot);
  void Reply(std::string_view device, const JobReport& report, Block output);

  // A reason to stop, looked for before each step that costs something.
  std::optional<Failure> Stopped(std::string_view where) const;
  Failure Refusal(MemoryLedger::Outcome outcome) const;
  // Answers with an error and lets go of all memory. Only the first answer of
  // a call is sent.
  void Fail(const Failure& failure);
  void LetGo();
  bool ClaimAnswer();
  void RecordEnd();

  CallEnvironment* const env_;
  const wire::Method method_;
  grpc::ServerCompletionQueue* const queue_;
  std::atomic<int> refs_{2};  // arrived, done
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_;
  CompletionTag arrived_tag_{[this](bool ok) { OnArrived(ok); }};
  CompletionTag read_tag_{[this](bool ok) { OnRead(ok); }};
  CompletionTag finished_tag_{[this](bool ok) { OnFinished(ok); }};
  CompletionTag done_tag_{[this](bool ok) { OnDone(ok); }};

  std::atomic<Stage> stage_{Stage::kArmed};
  std::atomic<bool> answered_{false};
  std::atomic<bool> cancelled_{false};
  bool accepted_ = false;  // the registry holds it
  absl::Time deadline_ = absl::InfiniteFuture();
  absl::Time receive_until_ = absl::InfiniteFuture();

  MemoryCharge charge_;
  bool declared_ = false;
  size_t declared_bytes_ = 0;  // or the largest legal size
  bool growing_ = false;       // it is more memory that OnMemory brings
  grpc::ByteBuffer buffer_;    // as read; as it is written, later
  std::vector<grpc::Slice> slices_;
  std::vector<std::string_view> views_;  // of slices_
  wire::Request request_;

  CallRecord record_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALL_H_
