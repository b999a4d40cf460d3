// The thread that takes the gate's decisions, by the steady clock.
#ifndef QUANTD_SERVER_GATE_GATE_THREAD_H_
#define QUANTD_SERVER_GATE_GATE_THREAD_H_

#include <memory>
#include <thread>

#include "server/gate/gate.h"

namespace quantd {

class GateThread {
 public:
  explicit GateThread(std::shared_ptr<Gate> gate);
  ~GateThread();
  GateThread(const GateThread&) = delete;

  // Stops the gate; whoever waits has been told when this returns.
  void Stop();

 private:
  struct Changes;

  const std::shared_ptr<Gate> gate_;
  // Leases may tell of changes after this has gone.
  const std::shared_ptr<Changes> changes_;
  std::thread thread_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_GATE_THREAD_H_
