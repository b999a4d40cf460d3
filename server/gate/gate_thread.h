// The thread that takes the gate's decisions.
#ifndef QUANTD_SERVER_GATE_GATE_THREAD_H_
#define QUANTD_SERVER_GATE_GATE_THREAD_H_

#include <functional>
#include <memory>
#include <thread>

#include "absl/time/time.h"
#include "server/gate/gate.h"
#include "server/gate/steady_time.h"

namespace quantd {

class GateThread {
 public:
  // By the time that `now` tells.
  explicit GateThread(std::shared_ptr<Gate> gate,
                      std::function<absl::Time()> now = SteadyNow);
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
