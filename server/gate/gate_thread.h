// The thread that takes the gate's decisions.
#ifndef QUANTD_SERVER_GATE_GATE_THREAD_H_
#define QUANTD_SERVER_GATE_GATE_THREAD_H_

#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "server/gate/gate.h"
#include "server/gate/steady_time.h"

namespace quantd {

class GateThread {
 public:
  // By the time that `now` tells.
  explicit GateThread(std::shared_ptr<Gate> gate,
                      std::function<absl::Time()> now = SteadyNow)
      : gate_(std::move(gate)), thread_([gate = gate_, now = std::move(now)] {
          bool more = true;
          while (more) {
            more = gate->AwaitDecision(now);
            gate->Decide(now());
          }
        }) {}
  ~GateThread() { Stop(); }
  GateThread(const GateThread&) = delete;

  // Stops the gate; who waited has been told when this returns.
  void Stop() {
    gate_->Stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  const std::shared_ptr<Gate> gate_;
  std::thread thread_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_GATE_THREAD_H_
