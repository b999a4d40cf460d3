// Describes a conversion plan for people and for programs.
#ifndef QUANTD_CLIENT_QUANTCTL_MODELS_PLAN_TEXT_H_
#define QUANTD_CLIENT_QUANTCTL_MODELS_PLAN_TEXT_H_

#include <cstdint>
#include <string>

#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"
#include "client/quantctl/commands.h"

namespace quantd::quantctl {

// Prints a line of `--json`.
void Event(const checkpoint::Json& json);

// `memory` is the most bytes that the conversion holds.
void PrintPlan(const Options& options, const checkpoint::Model& model,
               const checkpoint::ConversionPlan& plan, uint64_t memory);
void PrintPlanEvent(const checkpoint::Model& model,
                    const checkpoint::ConversionPlan& plan, uint64_t memory);

// "14 weights to nvfp4".
std::string FormatsText(const checkpoint::ConversionPlan& plan);
double Ratio(uint64_t out, uint64_t in);
// What to do next with a directory in the plan's dialect.
std::string NextStep(const checkpoint::Model& model,
                     const checkpoint::ConversionPlan& plan,
                     const std::string& out);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MODELS_PLAN_TEXT_H_
