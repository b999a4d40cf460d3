// The part that one call takes in an amax reduction over several calls. The
// call reports the maxima of its input and waits for the reduced amax.
#ifndef QUANTD_CLIENT_CALL_REDUCTION_H_
#define QUANTD_CLIENT_CALL_REDUCTION_H_

#include <functional>
#include <mutex>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/call/call.h"
#include "client/call/call_control.h"
#include "kernels/plan/shards.h"
#include "quantd/options.h"
#include "quantd/result.h"

namespace quantd::client {

// The maxima in the result of an RhtAmax call, for the copies in `options`.
CopyAmax MaximaOf(const QuantizeOptions& options, const Result& found);

// Connects a call with the reduction that it takes part in. Thread-safe.
class Reduction {
 public:
  // Calls `tell` once, with the maxima of this call.
  explicit Reduction(std::function<void(const CopyAmax&)> tell)
      : tell_(std::move(tell)) {}

  // Reports this call's maxima. Only the first report counts, because a
  // repeated attempt finds the same maxima.
  void Found(const CopyAmax& maxima);
  bool found() const;

  // Sets the reduced amax. Only the first answer counts. An error ends the
  // call.
  void Answer(absl::StatusOr<CopyAmax> reduced);
  std::optional<absl::StatusOr<CopyAmax>> answer() const;
  // Waits for the answer. Returns DEADLINE_EXCEEDED or CANCELLED as any call
  // does.
  absl::StatusOr<CopyAmax> Await(const CallLimit& limit, CallControl& control);

  // While a Watch lives, Answer calls `wake`. If there is an answer already,
  // the constructor calls it. `wake` must not use the reduction. Only one Watch
  // may exist at a time.
  class Watch {
   public:
    Watch(Reduction* reduction, std::function<void()> wake);
    ~Watch();
    Watch(const Watch&) = delete;

   private:
    Reduction* const reduction_;
  };

 private:
  const std::function<void(const CopyAmax&)> tell_;
  mutable std::mutex mutex_;
  bool found_ = false;
  std::optional<absl::StatusOr<CopyAmax>> answer_;
  std::function<void()> wake_;
};

// Runs a reducing plan as two calls, both made by `run`. The first call finds
// the maxima. It is omitted if they were reported before.
absl::StatusOr<Result> RunInTwo(
    const Call& call, Reduction& reduction,
    absl::FunctionRef<absl::StatusOr<Result>(const Call&)> run);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_CALL_REDUCTION_H_
