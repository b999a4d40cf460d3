// Describes a conversion plan for people and for programs.
#ifndef QUANTD_CLIENT_QUANTCTL_MODELS_PLAN_TEXT_H_
#define QUANTD_CLIENT_QUANTCTL_MODELS_PLAN_TEXT_H_

#include <cstdint>
#include <string>

#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"
#include "client/quantctl/commands.h"

namespace quantd::quantctl {

// Prints one event of --json on a line.
void Event(const checkpoint::Json& json);

// Prints the plan. `memory` is the most bytes that the conversion will hold.
void PrintPlan(const Options& options, const checkpoint::Model& model,
               const checkpoint::ConversionPlan& plan, uint64_t memory);
void PrintPlanEvent(const checkpoint::Model& model,
                    const checkpoint::ConversionPlan& plan, uint64_t memory);

// Counts of weights by format: "14 weights to nvfp4".
std::string FormatsText(const checkpoint::ConversionPlan& plan);
double Ratio(uint64_t out, uint64_t in);
// Suggests how to use the output `out`.
std::string NextStep(const checkpoint::Model& model,
                     const checkpoint::ConversionPlan& plan,
                     const std::string& out);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MODELS_PLAN_TEXT_H_
