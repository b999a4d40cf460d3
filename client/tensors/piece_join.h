// Joins the results of a tensor's pieces into the result of the whole tensor.
#ifndef QUANTD_CLIENT_TENSORS_PIECE_JOIN_H_
#define QUANTD_CLIENT_TENSORS_PIECE_JOIN_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/tensors/result_builder.h"
#include "quantd/distributed.h"
#include "quantd/plan.h"

namespace quantd::client {

// Builds the Result of a Quantize or RhtAmax plan without groups. Not
// thread-safe.
class Join {
 public:
  // The plan must outlive this.
  explicit Join(const Plan& plan) : plan_(plan), builder_(plan, {}) {}

  // Allocates the outputs; call it first. Returns RESOURCE_EXHAUSTED if that
  // fails.
  absl::Status Begin();
  void Add(const Shard& piece, const Result& result);
  // Returns the result. Call it after all pieces were added.
  absl::StatusOr<Result> Take() { return builder_.Take(std::move(report_)); }

 private:
  const Plan& plan_;
  ResultBuilder builder_;
  ResultBuilder::Report report_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_TENSORS_PIECE_JOIN_H_
