// What is looked at before a call asks the ledger for anything: its priority,
// and what its caller's token grants.
#ifndef QUANTD_SERVER_CALLS_ADMISSION_H_
#define QUANTD_SERVER_CALLS_ADMISSION_H_

#include <cstdint>
#include <optional>

#include "server/calls/failure.h"
#include "server/calls/incoming_call.h"
#include "server/gate/ledger.h"
#include "server/gate/quotas.h"

namespace quantd {

// Fills in of the ask who makes it. `bytes`: what is known that will come.
// Nothing: the call may ask.
std::optional<Failure> Admit(Quotas& quotas, const IncomingCall& call,
                             uint64_t bytes, MemoryLedger::ReceiveAsk* ask,
                             Quotas::Lease* lease);

// Of an ask that the ledger refused for a reason that passes.
Failure NotNow(MemoryLedger& ledger, MemoryLedger::Outcome outcome,
               const MemoryLedger::ReceiveAsk& ask);

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_ADMISSION_H_
