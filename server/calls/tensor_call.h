// What a tensor method does with a call:
//
//   admitting -> receiving -> (counting ->) planning -> (waiting ->) claiming
//   -> queued -> running -> replying
//
// Memory is admitted before it is used: to receive, before the message is read;
// for long lists, before they are parsed; for staging and output, once the plan
// says how much. At most one thread moves
// a call forward at any time: its completion queue's, the ledger's, the
// PlanningThreads', the EventWaits' or a worker's.
#ifndef QUANTD_SERVER_CALLS_TENSOR_CALL_H_
#define QUANTD_SERVER_CALLS_TENSOR_CALL_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/device/engine.h"
#include "proto/net/received_message.h"
#include "proto/wire.h"
#include "server/calls/call_environment.h"
#include "server/calls/call_record.h"
#include "server/calls/failure.h"
#include "server/calls/incoming_call.h"
#include "server/calls/job_watch.h"
#include "server/calls/reply_pieces.h"
#include "server/calls/tensor_job.h"
#include "server/gate/ledger.h"
#include "server/gate/quotas.h"
#include "server/memory/event_waits.h"
#include "server/memory/places.h"

namespace quantd {

class TensorCall final : public CallHandler,
                         private MemoryLedger::Waiter,
                         private EventWaits::Waiter,
                         private Engine::Work {
 public:
  TensorCall(CallEnvironment* env, IncomingCall* call, wire::Method method);
  ~TensorCall() override;

  void Begin() override;
  void OnRead(bool ok) override;
  void OnFinished(bool ok) override;
  void OnCancelled() override;
  void OnWatch(absl::Time now) override;

 private:
  enum class Watched : char { kNoJob, kJobRuns, kJobHangs };

  enum class Stage {
    kAdmitting,
    kReceiving,
    kPlanning,
    kCounting,
    kWaiting,
    kClaiming,
    kQueued,
    kRunning,
    kReplying,
    kClosing,
  };
  using Clock = CallRecord::Clock;

  // The steps.
  void Admit();
  void OnMemory(MemoryLedger::Outcome outcome, MemoryCharge charge) override;
  void Revoke(MemoryLedger::Revocation why) override;
  // Whether a job that failed may be run again, by another device above all.
  bool MayRunAgain() const;
  void Receive();
  void CountLists();
  void PlanRequest();
  void AwaitEvent();
  bool WaitIsOver() override;
  void OnWaitOver() override;
  void Claim();
  bool IsQuick(int device);
  void Queue();
  void RunOn(Backend& backend, Engine::SlotLease slot) override;
  bool LeavesLostDevice() const override { return true; }
  void OnDeviceLost() override;
  void RunElsewhere();
  // Nothing: it replied, or the job is to be run again (`again`).
  std::optional<Failure> Compute(Backend& backend, Engine::SlotLease slot,
                                 bool* again);
  void BeginWatch();
  // False: the job was found to hang, and the call is answered.
  bool EndWatch();
  // What is made of a job's error.
  std::optional<Failure> FromJob(const absl::Status& status, bool* again);
  void Reply(const JobReport& report, JobOutput output);

  void Waits();
  void LeaveQueues();
  void WatchReceiving(absl::Time now);
  void WatchJob();
  void WatchSending(absl::Time now);

  // A reason to stop, looked for before each step that costs something.
  std::optional<Failure> Stopped(std::string_view where) const;
  Failure Refusal(MemoryLedger::Outcome outcome) const;
  // Answers with an error and lets go of all memory.
  void Fail(const Failure& failure);
  void LetGo();
  void Release();
  void RecordEnd();
  std::string Shape() const;  // "4096x4096"; of no plan: empty

  CallEnvironment* const env_;
  IncomingCall* const call_;
  const wire::Method method_;
  std::atomic<Stage> stage_{Stage::kAdmitting};
  std::atomic<bool> accepted_{false};  // the registry counts it
  absl::Time receive_since_ = absl::InfinitePast();
  // Of an event that it waits for.
  absl::Time wait_until_ = absl::InfinitePast();
  bool event_passed_ = false;
  enum Revoked : char { kNot, kOthersWait, kTooLong };
  std::atomic<Revoked> revoked_{kNot};

  MemoryLedger::ReceiveAsk ask_;  // as it was first made
  Quotas::Lease quota_;
  MemoryCharge charge_;
  bool declared_ = false;
  size_t declared_bytes_ = 0;  // or the largest legal size
  ReceivedMessage message_;
  wire::Request request_;
  Places places_;    // of the request
  int device_ = -1;  // the one in whose memory it works; -1: any

  int runs_ = 0;            // jobs of it that were begun
  bool has_input_ = false;  // it still has all of it
  // On the network's own thread.
  bool on_network_ = false;
  std::atomic<int> queued_on_{-1};
  // Of the job that runs, for OnWatch: written before `watched_`.
  std::atomic<Watched> watched_{Watched::kNoJob};
  struct {
    int device = -1;
    bool is_inline = false;
    bool writes_to_lent = false;
    // Of the network thread that it runs on. Once it has ended nobody is.
    enum Relief : char { kNot, kRelieved, kEnded };
    std::atomic<Relief> relief{kNot};
    JobWatch watch;
  } job_;

  // Of the reply on its way.
  std::shared_ptr<ReplyProgress> progress_;
  bool copied_ = false;   // into a message of its own
  SendWatch send_watch_;  // for OnWatch alone
  std::string shape_;     // once the plan is gone

  CallRecord record_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_TENSOR_CALL_H_
