// A message on its way, as the ledger sees it.
#ifndef QUANTD_SERVER_GATE_ARRIVAL_H_
#define QUANTD_SERVER_GATE_ARRIVAL_H_

#include <cstddef>

#include "server/gate/ledger.h"
#include "server/gate/sender.h"

namespace quantd {

struct Sender::Arrival {
  MemoryLedger::Waiter* waiter;
  size_t need;
  size_t most;
  bool revoked = false;
  double work = 0;  // that it is expected to become, see Forecast
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_ARRIVAL_H_
