// A call that is answered with an error on its headers. Nothing of its message
// is read.
#ifndef QUANTD_SERVER_CALLS_REFUSAL_H_
#define QUANTD_SERVER_CALLS_REFUSAL_H_

#include <utility>

#include "server/calls/failure.h"
#include "server/calls/incoming_call.h"

namespace quantd {

class Refusal final : public CallHandler {
 public:
  Refusal(IncomingCall* call, Failure failure)
      : call_(call), failure_(std::move(failure)) {}
  void Begin() override {
    if (call_->ClaimAnswer()) call_->FinishWith(failure_, "");
  }

 private:
  IncomingCall* const call_;
  const Failure failure_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_REFUSAL_H_
