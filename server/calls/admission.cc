#include "server/calls/admission.h"

#include <string>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "kernels/plan/field_error.h"
#include "proto/methods.h"
#include "server/gate/steady_time.h"

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
  if (const auto text = call.Metadata(wire::kTicketKey)) {
    // What is none of ours is nobody's time.
    if (!absl::SimpleAtoi(std::string(*text), &ask->ticket)) ask->ticket = 0;
  }
  ask->again = call.Metadata(wire::kAttemptsKey).has_value();
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
  const MemoryLedger::Turn turn = ledger.NextTurn(ask);
  Failure failure = outcome == MemoryLedger::Outcome::kTooLate
                        ? Failure::TooLate(turn.delay)
                        : Failure::Busy(turn.delay);
  failure.ticket = turn.ticket;
  return failure;
}

}  // namespace quantd
