#include "server/admission.h"

#include <string>

#include "absl/time/clock.h"
#include "kernels/plan/field_error.h"
#include "proto/methods.h"
#include "server/steady_time.h"

namespace quantd {

std::optional<Failure> Admit(Quotas& quotas, const IncomingCall& call,
                             uint64_t bytes, MemoryLedger::ReceiveAsk* ask,
                             Quotas::Lease* lease) {
  ask->caller = call.caller();
  if (const auto text = call.Metadata(wire::kPriorityKey)) {
    const auto priority = ParsePriority(*text);
    if (!priority) {
      return Failure::BadRequest(FieldError(
          wire::kPriorityKey, "high, normal or low", "something else"));
    }
    ask->priority = *priority;
  }
  // Where no token says who may, nobody may.
  const bool may_be_high = ask->caller != nullptr && ask->caller->may_be_high;
  if (ask->priority == Priority::kHigh && !may_be_high) {
    ask->priority = Priority::kNormal;
  }
  const Quotas::Refused refused =
      quotas.Enter(ask->caller, bytes, SteadyNow(), lease);
  if (refused.what == nullptr) return std::nullopt;
  return Failure::OverQuota(refused.what, refused.delay);
}

Failure NotNow(MemoryLedger& ledger, MemoryLedger::Outcome outcome,
               const MemoryLedger::ReceiveAsk& ask) {
  const absl::Duration delay = ledger.RetryDelay(ask);
  return outcome == MemoryLedger::Outcome::kTooLate ? Failure::TooLate(delay)
                                                    : Failure::Busy(delay);
}

}  // namespace quantd
