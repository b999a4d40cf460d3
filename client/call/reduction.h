// One call's part in a reduction of an amax over several calls: reports the
// maxima of its input and receives the reduced amax.
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

// The maxima that an RhtAmax call found for the copies of these options.
CopyAmax MaximaOf(const QuantizeOptions& options, const Result& found);

// Thread-safe.
class Reduction {
 public:
  // `tell` is called once with the maxima.
  explicit Reduction(std::function<void(const CopyAmax&)> tell)
      : tell_(std::move(tell)) {}

  // Later calls are ignored: a repeated attempt finds the same maxima.
  void Found(const CopyAmax& maxima);
  bool found() const;

  // Later calls are ignored. An error ends the call.
  void Answer(absl::StatusOr<CopyAmax> reduced);
  std::optional<absl::StatusOr<CopyAmax>> answer() const;
  // DEADLINE_EXCEEDED and CANCELLED, as for any call.
  absl::StatusOr<CopyAmax> Await(const CallLimit& limit, CallControl& control);

  // While it lives, `wake` runs once when there is an answer, at once if there
  // is one already. It must not use the reduction. Only one may exist at a
  // time.
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

// Performs a reducing plan in two calls, made by `run`. The first, which finds
// the maxima, is omitted if they were reported before.
absl::StatusOr<Result> RunInTwo(
    const Call& call, Reduction& reduction,
    absl::FunctionRef<absl::StatusOr<Result>(const Call&)> run);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_CALL_REDUCTION_H_
