// What rpc Stream does with a call: a tensor call whose payload comes, and
// whose reply goes, in chunks.
//
//   admitting -> receiving -> (counting ->) planning -> claiming -> beginning
//   -> feeding -> queued -> running -> replying
//
// Where the amax is reduced, between feeding and queued:
//
//   -> seeking -> found -> telling -> awaiting -> settled
//
// A message that has come is being taken before anything follows from it.
//
// The maxima are found on a slot, which is given back before they are told;
// while the answer is awaited the job keeps what it was admitted with.
//
// The same ledger, devices and jobs as of unary calls. Staging and output are
// admitted, and the job begun, before the first chunk is read; chunks are
// charged as they come, and one at a time. Meanwhile the job has a place beside
// the device's slots: a slow sender takes none.
//
// At most one thread moves a call forward at any time. OnWatch ends one that
// waits for its client, and whoever wakes it looks whether it did: which of the
// two moves it on is decided by a change of stage, so that it is not answered
// while a write begins.
#ifndef QUANTD_SERVER_CALLS_STREAM_CALL_H_
#define QUANTD_SERVER_CALLS_STREAM_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/device/engine.h"
#include "proto/net/received_message.h"
#include "proto/stream/chunks.h"
#include "server/calls/call_environment.h"
#include "server/calls/call_record.h"
#include "server/calls/failure.h"
#include "server/calls/incoming_call.h"
#include "server/calls/job_watch.h"
#include "server/calls/reply_pieces.h"
#include "server/gate/ledger.h"
#include "server/gate/quotas.h"

namespace quantd {

class StreamCall final : public CallHandler,
                         private MemoryLedger::Waiter,
                         private Engine::Work {
 public:
  StreamCall(CallEnvironment* env, IncomingCall* call);
  ~StreamCall() override;

  void Begin() override;
  void OnRead(bool ok) override;
  void OnWritten(bool ok) override;
  void OnFinished(bool ok) override;
  void OnCancelled() override;
  void OnWatch(absl::Time now) override;

 private:
  enum class Stage {
    kAdmitting,
    kReceiving,
    kTaking,
    kCounting,
    kClaiming,
    kBeginning,
    kFeeding,
    kSeeking,
    kFound,
    kTelling,
    kUntaken,  // answered, though its client has not taken its maxima
    kAwaiting,
    kSettled,
    kQueued,
    kRunning,
    kReplying,
    kClosing,
  };
  enum Revoked : char { kNot, kOthersWait, kTooLong };
  using Clock = CallRecord::Clock;
  // How long one that is in the way of others may be.
  static constexpr absl::Duration kSenderPatience = absl::Seconds(1);

  // The steps.
  void OnMemory(MemoryLedger::Outcome outcome, MemoryCharge charge) override;
  void Revoke(MemoryLedger::Revocation why) override;
  void ReceiveStart();
  void OnStart();
  void CountLists();
  void PlanRequest();
  void Claim();
  void Submit(Stage stage);
  void RunOn(Backend& backend, Engine::SlotLease slot) override;
  bool LeavesLostDevice() const override { return true; }
  void OnDeviceLost() override;
  std::optional<Failure> BeginJob(Backend& backend);
  void ReceiveNext();
  void ReceiveChunk();
  void OnChunk(bool ok);
  std::optional<Failure> FindMaxima();
  void TellMaxima();
  void OnTold(bool ok);
  void AwaitAnswer(Stage stage, size_t came);
  void OnAnswer(bool ok);
  void OnSettled(bool ok);
  std::optional<Failure> RunJob(Engine::SlotLease slot);
  void WriteNext();

  void Waits();
  void LeaveQueues();
  void BeginWatch();
  // False: the device was found to hang, and the call is answered.
  bool EndWatch();
  void WatchReceiving(Stage stage, absl::Time now);
  void WatchTelling(absl::Time now);
  void WatchUntaken(absl::Time now);
  std::optional<Failure> WhyNotReceiving(Stage stage, absl::Time now);
  // Of whom: nobody, those who wait for memory, or for a place to be fed in.
  enum class InTheWay : char { kOfNobody, kOfMemory, kOfPlaces };
  InTheWay IsInTheWay(absl::Time now, uint64_t came);
  // False: another has moved the call on from that stage.
  bool Leave(Stage from, Stage to) {
    return stage_.compare_exchange_strong(from, to);
  }
  void AnswerWatched(const Failure& failure);
  void WatchJob();
  void WatchSending(absl::Time now);

  // A reason to stop, looked for before each step that costs something.
  std::optional<Failure> Stopped(std::string_view where) const;
  Failure Refusal(MemoryLedger::Outcome outcome) const;
  Failure FromJob(const absl::Status& status);
  // Answers with an error and lets go of all memory.
  void Fail(const Failure& failure);
  void LetGo();
  void Release();
  void RecordEnd();
  std::string Shape() const;

  CallEnvironment* const env_;
  IncomingCall* const call_;
  std::atomic<Stage> stage_{Stage::kAdmitting};
  std::atomic<bool> accepted_{false};  // the registry counts it
  std::atomic<Revoked> revoked_{kNot};

  // In the order in which they must not go before what follows.
  MemoryLedger::ReceiveAsk ask_;  // as it was first made
  Quotas::Lease quota_;
  MemoryCharge charge_;
  ReceivedMessage message_;
  wire::Request request_;
  uint64_t payload_bytes_ = 0;
  bool reduces_ = false;
  std::string maxima_;  // to be told
  Engine::SlotLease place_;
  std::unique_ptr<Job> job_;
  std::optional<wire::StreamGather> gather_;
  bool ended_early_ = false;

  // Of what comes, for OnWatch.
  std::atomic<int64_t> receive_since_{0};  // Unix time in ns
  std::atomic<uint64_t> came_{0};          // bytes of messages
  struct {
    uint64_t came = 0;
    absl::Time moved = absl::InfinitePast();
    // When the last step of some size was over.
    uint64_t step_came = 0;
    uint64_t step_received = 0;  // by the connection
    absl::Time stepped = absl::InfinitePast();
  } seen_;  // for OnWatch alone
  // Of the job that a device works on, for OnWatch.
  enum class Watched : char { kNoJob, kJobRuns, kJobHangs };
  std::atomic<Watched> watched_{Watched::kNoJob};
  JobWatch job_watch_;

  // Of the reply on its way.
  std::string head_;
  std::optional<ReplyChunks> chunks_;
  std::shared_ptr<ReplyProgress> progress_;
  bool sends_last_ = false;
  SendWatch send_watch_;  // for OnWatch alone
  std::string shape_;     // once the plan is gone

  CallRecord record_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_STREAM_CALL_H_
