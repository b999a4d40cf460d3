#include "server/gate/ledger.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "server/gate/steady_time.h"

namespace quantd {
namespace {

// Whoever has waited for so long goes before all others.
constexpr absl::Duration kPatience = absl::Seconds(1);
constexpr absl::Duration kPatienceOfLow = absl::Seconds(4);
// An ask that may overtake larger ones.
constexpr size_t kSmallAsk = 256 << 10;

}  // namespace

std::shared_ptr<MemoryLedger> MemoryLedger::Create(Limits limits) {
  return std::shared_ptr<MemoryLedger>(new MemoryLedger(std::move(limits)));
}

MemoryLedger::MemoryLedger(Limits limits)
    : limits_(std::move(limits)),
      payload_(limits_.payload.size(), 0),
      available_(limits_.payload.size(), Availability::kTakesWork) {
  thread_ = std::thread([this] { RunThread(); });
}

MemoryLedger::~MemoryLedger() { Stop(); }

const std::string& MemoryLedger::ShareOf(const Sender& sender,
                                         const Caller* caller) {
  return caller == nullptr ? sender.host() : caller->identity;
}

// Whoever is known by name has his share wherever he comes from.
bool MemoryLedger::IsExempt(const Sender& sender, const Caller* caller) const {
  return caller == nullptr && IsTrusted(sender.host());
}

void MemoryLedger::Hold(Sender& sender, const Caller* caller, size_t more,
                        size_t less) {
  const std::string& share = ShareOf(sender, caller);
  Host& host = hosts_[share];
  sender.held_ += more - less;
  host.held += more - less;
  // Nothing to remember of it.
  if (host.held == 0 && host.distrusted_until == absl::InfinitePast() &&
      host.unkept_until == absl::InfinitePast()) {
    hosts_.erase(share);
  }
}

void MemoryLedger::SetAvailable(std::vector<Availability> devices) {
  absl::MutexLock lock(&mutex_);
  available_ = std::move(devices);
  WakeWaiting();
}

void MemoryLedger::WakeWaiting() {
  if (!to_receive_.empty() || !for_head_.empty() || !for_payload_.empty()) {
    changed_.Signal();
  }
}

bool MemoryLedger::HasDevice(const Waiting& w) const {
  if (w.device >= 0) return available_[w.device] != Availability::kLost;
  return std::any_of(available_.begin(), available_.end(),
                     [](Availability a) { return a != Availability::kLost; });
}

int MemoryLedger::DeviceWithRoom(const Waiting& w, absl::Time now) {
  const bool distrusted = Distrusted(*w.sender, now);
  const size_t n = payload_.size();
  int best = -1;
  for (size_t k = 0; k < n; ++k) {
    const size_t i = (next_device_ + k) % n;
    if (w.device >= 0 && i != static_cast<size_t>(w.device)) continue;
    if (available_[i] != Availability::kTakesWork) continue;
    const size_t limit = limits_.payload[i];
    if (w.need > limit - payload_[i]) continue;
    if (distrusted && payload_[i] != 0 && payload_[i] + w.need > limit / 2) {
      continue;
    }
    if (best < 0 || payload_[i] < payload_[best]) best = static_cast<int>(i);
  }
  return best;
}

bool MemoryLedger::TryGrant(Queue& queue, Waiting& w, absl::Time now) {
  if (&queue == &to_receive_) {
    if (!HasRoomToReceive(w, now)) return false;
    Pay(w, now);
    w.charge = BeginArrival(w.sender, w.waiter, w.need, w.most, now);
    w.charge.caller_ = w.caller;
    w.charge.priority_ = w.priority;
    Foresee(*w.sender, *w.charge.arrival_, now);
    return true;
  }
  if (&queue == &for_head_) {
    if (w.need > limits_.heads - heads_) return false;
    heads_ += w.need;
    w.charge.head_ = w.need;
    Hold(*w.sender, w.caller.get(), w.need, 0);
    return true;
  }
  const int device = DeviceWithRoom(w, now);
  if (device < 0) return false;
  next_device_ = (device + 1) % payload_.size();
  payload_[device] += w.need;
  w.charge.payload_ = w.need;
  w.charge.device_ = device;
  Hold(*w.sender, w.caller.get(), w.need, 0);
  return true;
}

void MemoryLedger::Serve(Queue& queue, absl::Time now,
                         std::vector<Decided>* decided) {
  if (queue.empty()) return;
  struct Place {
    Queue::iterator at;
    bool patient;  // waits no longer than it must
    bool distrusted;
    Priority priority;
    size_t share_held;
    size_t sender_held;
  };
  std::vector<Place> places;
  for (auto it = queue.begin(); it != queue.end(); ++it) {
    const Sender& sender = *it->sender;
    const bool exempt = IsExempt(sender, it->caller.get());
    const auto share = hosts_.find(ShareOf(sender, it->caller.get()));
    const bool distrusted = Distrusted(sender, now);
    const absl::Duration patience =
        it->priority == Priority::kLow ? kPatienceOfLow : kPatience;
    places.push_back({it, distrusted || now - it->since <= patience, distrusted,
                      it->priority,
                      exempt || share == hosts_.end() ? 0 : share->second.held,
                      exempt ? 0 : sender.held_});
  }
  // The queue is in order of arrival, and stays so among equals. Places are
  // those of now: what is granted here changes them for the next time.
  std::stable_sort(
      places.begin(), places.end(), [](const Place& a, const Place& b) {
        if (a.patient != b.patient) return b.patient;
        if (!a.patient) return false;  // both: as they came
        return std::tie(a.distrusted, a.priority, a.share_held, a.sender_held) <
               std::tie(b.distrusted, b.priority, b.share_held, b.sender_held);
      });
  Waiting* first_left = nullptr;
  for (const Place& place : places) {
    Waiting& w = *place.at;
    if (first_left != nullptr) {
      const bool may_overtake =
          w.need <= kSmallAsk &&
          first_left->overtaken + w.need <= first_left->need / 4;
      if (!may_overtake) continue;
    }
    if (!TryGrant(queue, w, now)) {
      // Who is distrusted holds nobody up.
      if (first_left == nullptr && !place.distrusted) first_left = &w;
      continue;
    }
    if (first_left != nullptr) first_left->overtaken += w.need;
    decided->push_back({w.waiter, Outcome::kGranted, std::move(w.charge)});
    Leave(queue, place.at);
  }
}

uint64_t MemoryLedger::WindowOf(const Waiting& w) const {
  return std::min<uint64_t>(w.most, limits_.window);
}

MemoryLedger::Queue::iterator MemoryLedger::Leave(Queue& queue,
                                                  Queue::iterator at) {
  if (&queue == &to_receive_) at->sender->unread_ -= WindowOf(*at);
  return queue.erase(at);
}

bool MemoryLedger::TooManyWait(const Waiting& w, absl::Time now) const {
  if (!Suspect(*w.sender, now)) return false;
  size_t bytes = 0;
  for (const Queue* queue : {&for_head_, &for_payload_}) {
    for (const Waiting& other : *queue) {
      if (Suspect(*other.sender, now)) bytes += other.charge.receive_;
    }
  }
  return bytes != 0 && bytes + w.charge.receive_ > limits_.receive / 4;
}

MemoryLedger::Outcome MemoryLedger::Enter(Queue& queue, Waiting w,
                                          MemoryCharge* charge) {
  if (stopped_) {
    *charge = std::move(w.charge);
    return Outcome::kStopped;
  }
  if (&queue == &for_payload_ && !HasDevice(w)) {
    *charge = std::move(w.charge);
    return Outcome::kNoDevice;
  }
  // The thread will serve those who wait, this one among them, if it does not
  // fit at once.
  const bool alone = queue.empty();
  if (alone && TryGrant(queue, w, w.since)) {
    *charge = std::move(w.charge);
    return Outcome::kGranted;
  }
  if (&queue == &to_receive_ ? queue.size() >= limits_.max_waiting
                             : TooManyWait(w, w.since)) {
    *charge = std::move(w.charge);
    return Outcome::kFull;
  }
  if (&queue == &to_receive_) w.sender->unread_ += WindowOf(w);
  w.charge.due_ = absl::InfiniteFuture();
  queue.push_back(std::move(w));
  changed_.Signal();
  return Outcome::kWaiting;
}

MemoryLedger::Outcome MemoryLedger::AdmitReceive(const ReceiveAsk& ask,
                                                 Waiter* waiter,
                                                 MemoryCharge* charge) {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = SteadyNow();
  const auto due = InTime(ask, now);
  if (!due) return Outcome::kTooLate;
  const Outcome outcome =
      Enter(to_receive_,
            {waiter, ask.need, std::max(ask.need, ask.most), now,
             std::min(ask.deadline, now + limits_.max_wait), ask.sender,
             ask.caller, ask.priority, MemoryCharge()},
            charge);
  // (Who waits for memory, here or later, is late because of that.)
  if (outcome == Outcome::kGranted) charge->due_ = *due;
  return outcome;
}

MemoryCharge MemoryLedger::Track(const ReceiveAsk& ask, Waiter* waiter) {
  absl::MutexLock lock(&mutex_);
  return BeginArrival(ask.sender, waiter, ask.need,
                      std::max(ask.need, ask.most), SteadyNow());
}

MemoryCharge MemoryLedger::Charge(const std::shared_ptr<Sender>& sender,
                                  size_t bytes) {
  MemoryCharge charge;
  charge.ledger_ = shared_from_this();
  charge.sender_ = sender;
  charge.GrowReceive(bytes);
  return charge;
}

MemoryLedger::Outcome MemoryLedger::AdmitPayload(size_t need, int device,
                                                 absl::Time deadline,
                                                 Waiter* waiter,
                                                 MemoryCharge* charge) {
  absl::MutexLock lock(&mutex_);
  return AdmitMore(for_payload_, need, device, deadline, waiter, charge);
}

MemoryLedger::Outcome MemoryLedger::AdmitHead(size_t need, absl::Time deadline,
                                              Waiter* waiter,
                                              MemoryCharge* charge) {
  absl::MutexLock lock(&mutex_);
  return AdmitMore(for_head_, need, -1, deadline, waiter, charge);
}

MemoryLedger::Outcome MemoryLedger::AdmitMore(Queue& queue, size_t need,
                                              int device, absl::Time deadline,
                                              Waiter* waiter,
                                              MemoryCharge* charge) {
  const absl::Time now = SteadyNow();
  std::shared_ptr<Sender> sender = charge->sender_;
  std::shared_ptr<const Caller> caller = charge->caller_;
  const Priority priority = charge->priority_;
  return Enter(queue,
               {waiter, need, need, now,
                std::min(deadline, now + limits_.max_wait), std::move(sender),
                std::move(caller), priority, std::move(*charge), device},
               charge);
}

bool MemoryLedger::Forget(Waiter* waiter) {
  MemoryCharge charge;  // given back without the lock
  absl::MutexLock lock(&mutex_);
  for (Queue* queue : {&to_receive_, &for_head_, &for_payload_}) {
    for (auto it = queue->begin(); it != queue->end(); ++it) {
      if (it->waiter != waiter) continue;
      charge = std::move(it->charge);
      Leave(*queue, it);
      // The next in line may fit where this one did not.
      WakeWaiting();
      return true;
    }
  }
  return false;
}

void MemoryLedger::RunThread() {
  std::vector<Decided> decided;
  mutex_.Lock();
  while (true) {
    const absl::Time now = SteadyNow();
    absl::Time wake = absl::InfiniteFuture();
    for (Queue* queue : {&to_receive_, &for_head_, &for_payload_}) {
      for (auto it = queue->begin(); it != queue->end();) {
        const bool lost = queue == &for_payload_ && !HasDevice(*it);
        if (stopped_ || lost || it->until <= now) {
          decided.push_back({it->waiter,
                             stopped_ ? Outcome::kStopped
                             : lost   ? Outcome::kNoDevice
                                      : Outcome::kTimedOut,
                             std::move(it->charge)});
          it = Leave(*queue, it);
        } else {
          wake = std::min(wake, it->until);
          ++it;
        }
      }
      Serve(*queue, now, &decided);
    }
    if (decided.empty()) {
      if (stopped_) break;
      changed_.WaitUntil(&mutex_, wake);
      continue;
    }
    mutex_.Unlock();
    for (Decided& d : decided) {
      d.waiter->OnMemory(d.outcome, std::move(d.charge));
    }
    decided.clear();
    mutex_.Lock();
  }
  mutex_.Unlock();
}

void MemoryLedger::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    changed_.Signal();
  }
  if (thread_.joinable()) thread_.join();
}

bool MemoryLedger::ReplyAwaitedSince(absl::Time time) const {
  absl::MutexLock lock(&mutex_);
  const auto awaited = [&](const Queue& queue) {
    return !queue.empty() && queue.front().since <= time;
  };
  return awaited(for_payload_) || awaited(for_head_) || awaited(to_receive_);
}

size_t MemoryLedger::receive_used() const {
  absl::MutexLock lock(&mutex_);
  return arrived_ + arriving_;
}

size_t MemoryLedger::head_used() const {
  absl::MutexLock lock(&mutex_);
  return heads_;
}

size_t MemoryLedger::payload_used(int device) const {
  absl::MutexLock lock(&mutex_);
  return payload_[device];
}

size_t MemoryLedger::used() const {
  absl::MutexLock lock(&mutex_);
  size_t sum = arrived_ + arriving_ + heads_;
  for (const size_t n : payload_) sum += n;
  return sum;
}

size_t MemoryLedger::waiting() const {
  absl::MutexLock lock(&mutex_);
  return to_receive_.size() + for_head_.size() + for_payload_.size();
}

}  // namespace quantd
