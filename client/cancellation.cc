#include "quantd/cancellation.h"

#include <list>
#include <mutex>
#include <utility>

namespace quantd {

struct CancellationToken::State {
  std::mutex mutex;
  bool cancelled = false;
  std::list<std::function<void()>> actions;
};

struct CancellationToken::Registration::Impl {
  std::shared_ptr<State> state;
  std::list<std::function<void()>>::iterator place;
};

CancellationToken::CancellationToken() : state_(std::make_shared<State>()) {}

void CancellationToken::Cancel() const {
  // The lock is held while the actions run, so that removing an action waits
  // for it.
  std::lock_guard lock(state_->mutex);
  if (state_->cancelled) return;
  state_->cancelled = true;
  for (const auto& action : state_->actions) action();
}

bool CancellationToken::cancelled() const {
  std::lock_guard lock(state_->mutex);
  return state_->cancelled;
}

CancellationToken::Registration::Registration(const CancellationToken& token,
                                              std::function<void()> action)
    : impl_(std::make_unique<Impl>()) {
  impl_->state = token.state_;
  std::lock_guard lock(impl_->state->mutex);
  if (impl_->state->cancelled) action();
  impl_->place = impl_->state->actions.insert(impl_->state->actions.end(),
                                              std::move(action));
}

CancellationToken::Registration::~Registration() {
  std::lock_guard lock(impl_->state->mutex);
  impl_->state->actions.erase(impl_->place);
}

}  // namespace quantd
