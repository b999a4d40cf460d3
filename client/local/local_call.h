// One call on a device of this process.
#ifndef QUANTD_CLIENT_LOCAL_LOCAL_CALL_H_
#define QUANTD_CLIENT_LOCAL_LOCAL_CALL_H_

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/call/call_control.h"
#include "client/tensors/result_builder.h"
#include "kernels/device/backend.h"
#include "kernels/device/engine.h"
#include "quantd/call_options.h"
#include "quantd/plan.h"
#include "quantd/result.h"

namespace quantd::client {

// CANCELLED if the call was cancelled, else DEADLINE_EXCEEDED.
absl::Status WhyStopped(const std::string& target, const CallLimit& limit,
                        const CallControl& control);
// Why a call must stop. OK if it may continue.
absl::Status Stopped(const std::string& target, const CallLimit& limit,
                     const CallControl& control);

class LocalCall final : private Engine::Work {
 public:
  // All arguments must outlive this. `payload` has one piece for each input of
  // the plan.
  LocalCall(const std::string& target, const Plan& plan,
            absl::Span<const absl::Span<const std::byte>> payload,
            absl::Span<const Destination> into, const CallLimit& limit,
            CallControl& control);

  // Returns the memory that the device reads and writes. Returns
  // RESOURCE_EXHAUSTED if memory for the result cannot be allocated.
  absl::StatusOr<LentMemory> Lend();

  // Computes the plan on `device`, which has admitted the call, as soon as a
  // slot is free. Call it once, after Lend. When it returns, the device no
  // longer accesses memory of the call.
  absl::StatusOr<Result> Run(Engine& engine, int device);

 private:
  void RunOn(Backend& backend, Engine::SlotLease slot) override;
  absl::Status Compute(Backend& backend);
  // Waits for RunOn or withdraws the call. Returns false if it was withdrawn.
  bool Await(Engine& engine, int device);

  const std::string& target_;
  const Plan& plan_;
  const absl::Span<const absl::Span<const std::byte>> payload_;
  const CallLimit limit_;
  CallControl& control_;
  ResultBuilder result_;
  LentMemory lent_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  bool stop_ = false;
  // Valid once `done_` is true.
  absl::Status status_;
  std::string device_;
  JobReport report_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_LOCAL_LOCAL_CALL_H_
