// Runs a plan on a backend under test, on every kind of memory that it takes.
#ifndef QUANTD_TESTS_TESTING_RUN_PLAN_H_
#define QUANTD_TESTS_TESTING_RUN_PLAN_H_

#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/backend.h"
#include "quantd/plan.h"
#include "tests/oracle/oracle.h"

namespace quantd {

// One job's reply.
struct Reply {
  Block payload;
  JobReport report;
};

// Whether two jobs found the same in their inputs, sums of statistics included.
bool SameReport(const JobReport& a, const JobReport& b);

// Feeds one tensor for each of the plan's inputs, in several steps, and checks
// that the gaps between the outputs are zero bytes. One job.
absl::StatusOr<Reply> RunPlanOnOwnMemory(
    Backend& backend, const Plan& plan,
    const std::vector<oracle::Bytes>& inputs);
// Runs a plan; a backend that borrows runs it again on lent inputs, outputs or
// both, on each kind of memory that it takes in turn, between guard bytes.
// INTERNAL if a byte, the report or the error then differs. Thread-safe.
absl::StatusOr<Reply> RunPlan(Backend& backend, Plan plan,
                              const std::vector<oracle::Bytes>& inputs);
// One output of a reply.
oracle::Bytes TensorOf(const Reply& reply, const TensorSpec& spec);

}  // namespace quantd

#endif  // QUANTD_TESTS_TESTING_RUN_PLAN_H_
