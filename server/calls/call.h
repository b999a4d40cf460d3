// A call of a method with a payload, unary or stream, goes through stages:
//
//   admitting -> receiving -> (counting ->) planning -> (waiting ->) claiming
//   -> queued -> running -> replying
//
// The job of a stream runs in steps. The first begins it. The next follows when
// the chunks have come: -> feeding -> queued -> running. If its amax is reduced
// over several calls, a third follows, once the client has been told the local
// maxima: -> telling -> feeding -> queued -> running.
//
// Memory is admitted before it is used: for the message, before it is read; for
// long lists, before they are parsed; for staging and output, once the plan
// says how much. One lease holds all of it. What differs between messages and
// chunks is in Payload (server/calls/payload.h), which says what comes next.
//
// Sources: call.cc has the way from the headers to a device's memory, and how a
// call ends; call_job.cc what is done on a device, and the reply; call_watch.cc
// the limits of time.
//
// Threads: at most one moves a call forward at any time: its completion
// queue's, the gate's, a WorkerThread's or a device's worker's. The
// watch ends a call that waits for its client or a device for too long. The
// stage, under a lock, decides which of the two comes first.
#ifndef QUANTD_SERVER_CALLS_CALL_H_
#define QUANTD_SERVER_CALLS_CALL_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/device/engine.h"
#include "proto/net/received_message.h"
#include "server/calls/call_environment.h"
#include "server/calls/call_record.h"
#include "server/calls/failure.h"
#include "server/calls/incoming_call.h"
#include "server/calls/payload.h"
#include "server/calls/reply.h"
#include "server/gate/caller.h"
#include "server/gate/gate.h"

namespace quantd {

// Tells a slow job from one that hangs, by the time without progress.
class JobWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // Begins watching a job of `plan`. It may stand still for `most` plus the
  // time that its bytes take at the lowest speed.
  void Begin(const Plan& plan, absl::Duration most) {
    const size_t bytes = plan.input_bytes() + plan.output_bytes();
    limit_ = absl::ToChronoNanoseconds(
        most + absl::Seconds(static_cast<double>(bytes) / kBytesPerSecond));
    began_ = Clock::now();
  }
  // Passed to Job::CountPieces. Never reset.
  std::atomic<uint64_t>* pieces() { return &pieces_; }

  Clock::time_point began() const { return began_; }
  // Whether no piece was done within the limit; called by the watch only. If a
  // device counts no pieces the limit is for the whole job.
  bool Hangs() {
    const Clock::time_point now = Clock::now();
    const uint64_t pieces = pieces_;
    if (pieces != seen_) moved_ = now;
    seen_ = pieces;
    return now - std::max(began_, moved_) > limit_;
  }

 private:
  static constexpr size_t kBytesPerSecond = size_t{16} << 20;

  Clock::time_point began_;
  Clock::duration limit_{};
  std::atomic<uint64_t> pieces_{0};
  uint64_t seen_ = 0;
  Clock::time_point moved_;
};

class Call final : public CallHandler,
                   private Gate::Waiter,
                   private Engine::Work {
 public:
  Call(CallEnvironment* env, IncomingCall* call, wire::Method method);
  ~Call() override;

  void Begin() override {
    accepted_ = env_->registry.Accept();
    if (!accepted_) return Fail(Failure::Draining());
    Admit();
  }
  void OnRead(bool ok) override;
  void OnWritten(bool ok) override;
  void OnFinished(bool ok) override {
    if (!sends_last_) return;
    reply_->LastIsSent();
    if (ok) record_.sent = Clock::now();
  }
  void OnCancelled() override { LeaveQueues(); }
  void OnWatch(absl::Time now) override;

 private:
  enum class Stage {
    kAdmitting,  // waits for memory for its request
    kReceiving,  // waits for the request
    kTaking,     // examines a message that has arrived
    kCounting,   // waits for memory for long lists
    kPlanning,
    kWaiting,   // waits for the client's event
    kClaiming,  // waits for device memory
    kQueued,    // waits for a slot of the device, or moves to another
    kRunning,
    kFeeding,  // waits for more of a stream
    kTelling,  // waits until the client has taken the maxima
    kReplying,
    kClosing,  // has been answered with an error
  };
  using Clock = CallRecord::Clock;
  using Next = Payload::Next;

  // Admission and the request.
  void Admit();
  // Reads the size of the request if the client declares it.
  std::optional<Failure> ReadDeclared(size_t limit);
  // Fills in identity, deadline and priority.
  std::optional<Failure> ReadAsk(Gate::Ask* ask);
  // Waits for a message, in that stage.
  void Receive(Stage stage, Payload::Expected expected);
  // Ends a wait for the client. Returns the stage it was in, or kClosing if the
  // watch ended the call first.
  Stage LeaveClient();
  void OnRequest(bool ok);
  void CountLists();
  void PlanRequest();
  void AwaitEvent();
  void PollEvent();
  void Claim();

  // Handle the gate's answers, immediate or later. A pending ask holds a
  // reference. GoOn takes the step that follows the current stage, or fails.
  void OnGateAnswer(Gate::Answer answer);
  void OnAdmitted(Outcome outcome, Lease lease) override;
  void GoOn(Outcome outcome, absl::Duration retry_after, bool waited);

  // Work on a device.
  void AwaitSlot();
  // Whether running the job here takes less time than handing it to a worker.
  bool IsQuick() const;
  void RunOn(Backend& backend, Engine::SlotLease slot) override;
  bool LeavesLostDevice() const override { return true; }
  void OnDeviceLost() override {
    queued_on_ = -1;
    RunElsewhere();
    call_->Unref();
  }
  void RunElsewhere();
  // Does a step of the job. Unless it fails, `next` is set to the following
  // step, or `again` if the job is to be run again.
  std::optional<Failure> Compute(Backend& backend, Next* next, bool* again);
  // Whether a failed job may be run again, preferably on another device.
  bool MayRunAgain() const;
  // Turns a job's error into a failure, or sets `again` if the job is to be run
  // again.
  std::optional<Failure> FromJob(const absl::Status& status, bool* again);
  void DropMessage();
  void BeginWatch();
  // Returns false if the job was found to hang, which has answered the call.
  bool EndWatch();

  // Replies.
  void Do(Next next);
  void OnMessage(bool ok);
  void Tell();
  void MakeReply();
  void Send();

  // Time limits.
  void WatchClient(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the client has sent or taken anything since the last look.
  bool Moves() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Grows the reservation of a message of unknown size to what has come.
  // Returns false if there is no room.
  bool Grow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WatchJob() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WatchSending(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends the failure. The answer must have been claimed.
  void Close(const Failure& failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Stage stage() const {
    absl::MutexLock lock(&mutex_);
    return stage_;
  }
  void Enter(Stage stage) {
    absl::MutexLock lock(&mutex_);
    stage_ = stage;
  }
  bool streams() const { return method_ == wire::Method::kStream; }
  absl::Time Now() const { return env_->options.now(); }

  // Checked before each costly step: returns why to stop, if anything.
  std::optional<Failure> Stopped(std::string_view where) const;
  Failure Refusal(Outcome outcome, absl::Duration retry_after) const;
  // Answers with an error and releases all memory but a reply's, which is
  // released with the call.
  void Fail(const Failure& failure);
  void LetGo();
  // Ends a cancelled call that waits in a queue: nothing else would wake it.
  void LeaveQueues();
  void Release() {
    if (accepted_.exchange(false)) env_->registry.Release();
  }
  void RecordEnd();
  std::string Shape() const;  // "4096x4096"; empty without a plan

  CallEnvironment* const env_;
  IncomingCall* const call_;
  const wire::Method method_;
  std::atomic<bool> accepted_{false};  // counted by the registry
  std::optional<size_t> declared_;     // size of its request, if declared

  // Members are destroyed last to first: a job goes before its lease.
  Lease lease_;
  ReceivedMessage message_;
  std::unique_ptr<Payload> payload_;  // until the reply is made
  std::optional<Reply> reply_;
  CallRecord record_;
  std::string shape_;  // kept once the payload is gone

  // Limit of the wait for the client's event.
  absl::Time wait_until_ = absl::InfinitePast();

  int device_ = -1;          // whose memory has its tensors; -1: any
  int runs_ = 0;             // number of its jobs that were begun
  bool has_input_ = false;   // its whole input is still here
  bool on_network_ = false;  // runs on a network thread
  // The client ended its side in the middle of a stream.
  bool ended_early_ = false;
  bool sends_last_ = false;
  std::atomic<int> queued_on_{-1};

  mutable absl::Mutex mutex_;
  Stage stage_ ABSL_GUARDED_BY(mutex_) = Stage::kAdmitting;
  // Since when it has waited for its client, or been closing.
  absl::Time since_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time moved_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  uint64_t seen_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes, when it last moved
  AloneCount came_alone_;                      // bytes of a declared request
  // Bytes of its connection before a message of unknown size.
  std::optional<uint64_t> received_before_ ABSL_GUARDED_BY(mutex_);
  size_t most_ = 0;  // limit of the message on its way
  // The running job.
  JobWatch job_watch_;
  bool runs_inline_ = false;
  // Its network thread was replaced.
  bool relieved_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_CALL_H_
