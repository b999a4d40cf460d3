// The ledger: every byte of payload memory that a call may use, counted before
// it is used.
//
// There are three kinds of accounts. `receive` is memory that gRPC fills while
// a message arrives and that holds it until it is gathered; there is one
// account. `heads` is what long lists of a request become: a plan of thousands
// of groups, and the head of its reply; there is one account. `payload` is what
// a device's block pool lends for staging and output; there is one account for
// each device.
//
// A call asks in this order: for room to receive its message; for its lists, if
// it has long ones; for payload, when its plan says how much. Who holds one of
// them never asks for one before it, so nobody waits in a circle.
//
// A message on its way is charged what it declared; a sender that stops on the
// way, or has done so lately, is charged what has come. So a promise that
// nobody keeps holds nothing for long. What is on its way may take
// Limits::arriving of the receive account, so that messages can be finished.
//
// Who waits is served by his priority, then by what his share (the caller's
// identity, or else his host) and his connection hold, least first, and in
// order of arrival among equals, who is distrusted last; whoever else has
// waited for kPatience, or several times that at low priority, goes before all
// others. Small asks overtake large ones by a quarter of what those ask for, no
// more. Who could not be done before his deadline, by what was done lately
// (server/gate/forecast.h), is refused at once.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_GATE_LEDGER_H_
#define QUANTD_SERVER_GATE_LEDGER_H_

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/gate/appointments.h"
#include "server/gate/caller.h"
#include "server/gate/forecast.h"
#include "server/gate/memory_charge.h"
#include "server/gate/sender.h"
#include "server/gate/steady_time.h"

namespace quantd {

class MemoryLedger : public std::enable_shared_from_this<MemoryLedger> {
 public:
  struct Limits {
    size_t receive = 0;
    size_t arriving = 0;  // of receive: messages on their way
    size_t heads = 0;
    // What gRPC takes of a connection's messages that nobody reads.
    size_t window = 512 << 10;
    std::vector<size_t> payload;  // one for each device
    size_t max_waiting = 128;     // calls that wait to receive
    absl::Duration max_wait = absl::Seconds(10);
    // Hosts that speak for many, as proxies do: their calls are not held to
    // one host's share. Empty: none.
    std::function<bool(std::string_view host)> trusted = {};
  };

  enum class Outcome {
    kGranted,
    kWaiting,   // only from an ask: the waiter will be told
    kFull,      // only from an ask: too many wait already
    kTooLate,   // only from an ask: its deadline would be over first
    kTimedOut,  // only to a waiter: its time or the ledger's limit is over
    kNoDevice,  // of payload: no device takes work, or not the one asked for
    kStopped,   // the ledger was stopped
  };

  enum class Revocation {
    kOthersWait,  // and its sender does not send
    kTooLong,     // more has come than any of its sender's messages may have
  };

  class Waiter {
   public:
    virtual ~Waiter() = default;
    // Told once for each ask that waits, on the ledger's thread, unless Forget
    // said true. The charge is that of the ask, with what was granted.
    virtual void OnMemory(Outcome outcome, MemoryCharge charge) = 0;
    // The message on its way should be given up. Must only take note, since
    // the ledger is locked.
    virtual void Revoke(Revocation why) = 0;
  };

  struct ReceiveAsk {
    std::shared_ptr<Sender> sender;
    // What the message needs if it is as long as declared; of one that is not
    // declared, what it needs at first.
    size_t need = 0;
    // The most it may need, in the end.
    size_t most = 0;
    absl::Time deadline = absl::InfiniteFuture();
    std::shared_ptr<const Caller> caller = nullptr;  // null: not known
    Priority priority = Priority::kNormal;
    uint64_t ticket = 0;  // of its refusal; 0: none
    bool again = false;   // it was made before
  };

  static std::shared_ptr<MemoryLedger> Create(Limits limits);
  ~MemoryLedger();  // Stop must have been called

  Outcome AdmitReceive(const ReceiveAsk& ask, Waiter* waiter,
                       MemoryCharge* charge);
  // The same without a wait or a refusal, for messages that are small by law:
  // who looks at a server's health must get an answer when all memory is lent.
  MemoryCharge Track(const ReceiveAsk& ask, Waiter* waiter);
  // Charges the sender for bytes that the server sends it and that may stay
  // unread. Never waits nor refuses.
  MemoryCharge Charge(const std::shared_ptr<Sender>& sender, size_t bytes);
  // Until the charge is given back its sender may bring so many bytes that
  // nobody has asked for: more of a stream whose first message is here.
  void AllowUnread(uint64_t bytes, MemoryCharge* charge);
  // The next message of a stream, in place of what its charge holds to receive
  // or of the one before, which is here, `came` bytes of it. Between the two
  // there is no moment without one: gRPC has let the sender go on. `need`
  // counts as on its way until it has Arrived, and more if more comes, `most`
  // in the end; 0: it may come when it likes, and is no promise. Never waits,
  // or who holds payload would wait for those who wait for it.
  void ExpectNext(size_t came, size_t need, size_t most, Waiter* waiter,
                  MemoryCharge* charge);
  // More for a call whose message is here. If it must wait the charge goes with
  // it and comes back with OnMemory, whatever the outcome.
  // `device`: on that one; -1: on the one with the most room.
  Outcome AdmitPayload(size_t need, int device, absl::Time deadline,
                       Waiter* waiter, MemoryCharge* charge);
  Outcome AdmitHead(size_t need, absl::Time deadline, Waiter* waiter,
                    MemoryCharge* charge);

  // Payload is granted on devices that take work; who could have none but one
  // that may take it soon waits. All do, at first.
  enum class Availability : char { kTakesWork, kSoon, kLost };
  void SetAvailable(std::vector<Availability> devices);

  // True: the waiter was waiting, and will not be told any more; its charge,
  // if it had given one, is destroyed.
  bool Forget(Waiter* waiter);

  // Looks at what senders do, and revokes what stands in the way of others.
  // To be called every so often while messages are on their way.
  void Sweep(absl::Time now);
  // About `bytes` that come from a sender are no message's: headers. No more
  // than a certain rate of such guesses is believed.
  void Explain(Sender& sender, uint64_t bytes);
  // A call is over of which no message was read. Its window may have come, or
  // come yet, and gRPC drops it; if its client left it, that is but a guess.
  void EndUnread(Sender& sender, bool left);
  // What comes from a sender in the next moments may be of messages that were
  // refused before it knew, which gRPC drops.
  void Excuse(Sender& sender);
  // What has come from a sender that no message accounts for, not even as long
  // as those may be that are on their way, nor the windows of those that wait.
  // To be called every so often for each.
  uint64_t Unexplained(Sender& sender);
  // For a while half of each account is kept for others. Of a message of that
  // sender only what has come is charged.
  void Distrust(Sender& sender);
  // A connection of the sender's host was ended for what it brought: until it
  // is forgotten that host is granted little.
  void Outlaw(Sender& sender);
  // Whether that is held against the sender: not if it is proven, and never
  // against trusted hosts.
  bool Outlawed(const Sender& sender) const;
  enum class Standing { kTrusted, kGood, kDistrusted, kOutlawed };
  // What is held against the sender. kTrusted: a proxy's, whatever it does.
  Standing StandingOf(const Sender& sender) const;
  // The sender has taken a whole reply: from now on it answers for itself
  // alone, whatever others of its host do, and a stall of its own costs it no
  // more than its place. Until it is distrusted or stands in the way of others.
  void Prove(Sender& sender);
  // Whether a call waits since before `time` for what an unread reply may hold.
  bool ReplyAwaitedSince(absl::Time time) const;

  // How long a refused caller should stay away: about as long as the first in
  // the queue has waited, within 50 ms and 5 s.
  absl::Duration RetryDelay() const;
  // When an ask that was refused will have its turn if it brings the ticket.
  using Turn = Appointments::Turn;
  Turn NextTurn(const ReceiveAsk& ask);

  // Tells every waiter kStopped and refuses from then on. Blocks until no
  // callback runs. Charges may still come back later.
  void Stop();

  size_t receive_used() const;
  size_t head_used() const;
  size_t payload_used(int device) const;
  size_t used() const;  // all accounts
  size_t waiting() const;
  const Limits& limits() const { return limits_; }

 private:
  friend class MemoryCharge;
  using Arrival = Sender::Arrival;
  struct Waiting {
    Waiter* waiter;
    size_t need;
    size_t most;
    absl::Time since;
    absl::Time until;
    std::shared_ptr<Sender> sender;
    std::shared_ptr<const Caller> caller;
    Priority priority;
    MemoryCharge charge;
    int device = -1;       // the only one that will do; -1: any
    size_t overtaken = 0;  // bytes that were granted to later ones
  };
  using Queue = std::list<Waiting>;
  // And of an identity, which has no standing.
  struct Host {
    size_t held = 0;
    absl::Time unkept_until = absl::InfinitePast();
    absl::Time distrusted_until = absl::InfinitePast();
    // One of its connections brought more than it may.
    absl::Time outlawed_until = absl::InfinitePast();
    // When what it was granted since would have come at kOutlawRate.
    absl::Time paid_until = absl::InfinitePast();
  };
  struct Decided {
    Waiter* waiter;
    Outcome outcome;
    MemoryCharge charge;
  };

  explicit MemoryLedger(Limits limits);
  MemoryCharge BeginArrival(const std::shared_ptr<Sender>& sender,
                            Waiter* waiter, size_t need, size_t most,
                            absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `bytes` of it have come; nothing: it was given up.
  void EndArrival(Sender& sender, Arrival& arrival, std::optional<size_t> bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives how many it believed.
  uint64_t Guess(Sender& sender, uint64_t bytes, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Bytes that have come of messages on their way, as last measured.
  static uint64_t Come(const Sender& sender);
  void Measure(Sender& sender) const;
  void Recount(Sender& sender, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Distrusted(const Sender& sender, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Distrusted, and nothing speaks for it.
  bool Suspect(const Sender& sender, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsTrusted(const std::string& host) const {
    return limits_.trusted && limits_.trusted(host);
  }
  // The sender's host, if one of its connections has lately brought more than
  // it may; else null.
  const Host* OutlawedHost(const Sender& sender, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsOutlaw(const Sender& sender, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OutlawLocked(Sender& sender, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Distrusts sender and host for a while. Gives the host.
  Host& HoldAgainst(Sender& sender, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static uint64_t Lawful(const Sender& sender);
  void RevokeTooLong(Sender& sender, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TurnAwayDistrusted(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RevokeExcess(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RevokeStalled(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void RevokeAll(Sender& sender, Revocation why);

  bool HasRoomToReceive(const Waiting& w, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A host that has brought more than it may is granted bytes at a low rate.
  void Pay(const Waiting& w, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What those who are distrusted and unproven may bring to the receive account
  // by messages that they have not stopped sending or that wait for more
  // memory. Small messages wait for nobody and are not among them.
  uint64_t ExpectedOfDistrusted(absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a device that would do takes work, or may soon.
  bool HasDevice(const Waiting& w) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Index of the device that has room now, or -1.
  int DeviceWithRoom(const Waiting& w, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TryGrant(Queue& queue, Waiting& w, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Grants what can be granted of those who wait.
  void Serve(Queue& queue, absl::Time now, std::vector<Decided>* decided)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What a call that waits to be received may have brought.
  uint64_t WindowOf(const Waiting& w) const;
  // What is after it, when it does not wait any more.
  Queue::iterator Leave(Queue& queue, Queue::iterator at)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Outcome AdmitMore(Queue& queue, size_t need, int device, absl::Time deadline,
                    Waiter* waiter, MemoryCharge* charge);
  // Messages of those who are distrusted and unproven that are here and wait
  // for more take a quarter of the receive account; the next is turned away.
  bool TooManyWait(const Waiting& w, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Outcome Enter(Queue& queue, Waiting w, MemoryCharge* charge)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Under which name he has his share.
  static const std::string& ShareOf(const Sender& sender, const Caller* caller);
  bool IsExempt(const Sender& sender, const Caller* caller) const;
  // Until when it should be over, as is foreseen; nothing: it would be late.
  std::optional<absl::Time> InTime(const ReceiveAsk& ask, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a message on its way is work by now, and when it does not come.
  void Foresee(Sender& sender, Arrival& arrival, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Disbelieve(Sender& sender, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration OldestWait(absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Hold(Sender& sender, const Caller* caller, size_t more, size_t less)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After what may give room to those who wait, if anybody does.
  void WakeWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunThread();

  const Limits limits_;
  mutable absl::Mutex mutex_;
  SteadyCondVar changed_;
  size_t arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t arriving_ ABSL_GUARDED_BY(mutex_) = 0;                   // as counted
  absl::flat_hash_set<Sender*> senders_ ABSL_GUARDED_BY(mutex_);  // sending
  size_t heads_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<size_t> payload_ ABSL_GUARDED_BY(mutex_);
  std::vector<Availability> available_ ABSL_GUARDED_BY(mutex_);  // by device
  absl::flat_hash_map<std::string, Host> hosts_ ABSL_GUARDED_BY(mutex_);
  Forecast forecast_ ABSL_GUARDED_BY(mutex_);
  Appointments appointments_ ABSL_GUARDED_BY(mutex_);
  Queue to_receive_ ABSL_GUARDED_BY(mutex_);
  Queue for_head_ ABSL_GUARDED_BY(mutex_);
  Queue for_payload_ ABSL_GUARDED_BY(mutex_);
  size_t next_device_ ABSL_GUARDED_BY(mutex_) = 0;  // breaks ties in turn
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_LEDGER_H_
