#include "server/gate/gate_thread.h"

#include <utility>

#include "server/gate/steady_time.h"

namespace quantd {

struct GateThread::Changes {
  void Tell(bool last) {
    absl::MutexLock lock(&mutex);
    changed = true;
    stopping = stopping || last;
    told.Signal();
  }
  // Until there is something to decide. False: it is for the last time.
  bool Await(absl::Time until) {
    absl::MutexLock lock(&mutex);
    const auto has_changed = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
      return changed;
    };
    told.WaitUntil(&mutex, until, has_changed);
    changed = false;
    return !stopping;
  }

  absl::Mutex mutex;
  SteadyCondVar told;
  bool changed ABSL_GUARDED_BY(mutex) = false;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
};

GateThread::GateThread(std::shared_ptr<Gate> gate,
                       std::function<absl::Time()> now)
    : gate_(std::move(gate)), changes_(std::make_shared<Changes>()) {
  gate_->OnChanged([changes = changes_] { changes->Tell(false); });
  thread_ = std::thread([this, now = std::move(now)] {
    bool more = true;
    while (more) {
      more = changes_->Await(SteadyNow() + (gate_->NextDecision() - now()));
      gate_->Decide(now());
    }
  });
}

GateThread::~GateThread() { Stop(); }

void GateThread::Stop() {
  if (!thread_.joinable()) return;
  gate_->Stop();
  changes_->Tell(true);
  thread_.join();
}

}  // namespace quantd
