// One call's place in a reduction of an amax over several: what its input adds
// goes out, the reduced amax comes back.
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

// What a call of RhtAmax has found for the copies of these options.
CopyAmax MaximaOf(const QuantizeOptions& options, const Result& found);

// Thread-safe.
class Reduction {
 public:
  // `tell` is given the maxima, once.
  explicit Reduction(std::function<void(const CopyAmax&)> tell)
      : tell_(std::move(tell)) {}

  // Only the first counts: a call that is tried again finds the same.
  void Found(const CopyAmax& maxima);
  bool found() const;

  // Only the first counts. An error ends the call.
  void Answer(absl::StatusOr<CopyAmax> reduced);
  std::optional<absl::StatusOr<CopyAmax>> answer() const;
  // DEADLINE_EXCEEDED and CANCELLED, as of any call.
  absl::StatusOr<CopyAmax> Await(const CallLimit& limit, CallControl& control);

  // While it lives, `wake` runs once when there is an answer: at once where
  // there is one. It must not touch the reduction. One at a time.
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

// Makes a call on a plan that reduces by two calls, which `run` makes: one
// finds the maxima, and where they were told before is left out.
absl::StatusOr<Result> RunInTwo(
    const Call& call, Reduction& reduction,
    absl::FunctionRef<absl::StatusOr<Result>(const Call&)> run);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_CALL_REDUCTION_H_
