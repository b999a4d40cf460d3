// Runs a plan on a backend under test, with every kind of memory that it
// supports.
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

// Whether two jobs report the same about their inputs, including the sums of
// the statistics.
bool SameReport(const JobReport& a, const JobReport& b);

// Runs one job: feeds the plan's inputs in several steps, and checks that the
// gaps between the outputs are zero.
absl::StatusOr<Reply> RunPlanOnOwnMemory(
    Backend& backend, const Plan& plan,
    const std::vector<oracle::Bytes>& inputs);
// Runs a plan. On a backend that accepts lent memory, runs it again with lent
// inputs, outputs or both, alternating between the supported kinds of memory,
// with guard bytes around it. INTERNAL if a byte, the report or the error
// differs. Thread-safe.
absl::StatusOr<Reply> RunPlan(Backend& backend, Plan plan,
                              const std::vector<oracle::Bytes>& inputs);
// One output of a reply.
oracle::Bytes TensorOf(const Reply& reply, const TensorSpec& spec);

}  // namespace quantd

#endif  // QUANTD_TESTS_TESTING_RUN_PLAN_H_
