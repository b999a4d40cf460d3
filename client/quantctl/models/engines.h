// Results of engines run on output of `quantctl convert`. `next:` recommends
// engines by this table, and ENGINES.md beside this file shows it.
#ifndef QUANTD_CLIENT_QUANTCTL_MODELS_ENGINES_H_
#define QUANTD_CLIENT_QUANTCTL_MODELS_ENGINES_H_

#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::quantctl {

// Text only: tests/bench/results/tables.py makes the page from these rows.
struct EngineRun {
  std::string_view engine;   // "vLLM"
  std::string_view version;  // and the hardware: "0.26.0 on an H200"
  std::string_view dialect;
  // Separated by commas; within one model: "fp8 and nvfp4".
  std::string_view formats;
  std::string_view kind;   // see KindOf
  std::string_view tried;  // models
  // "ran": the engine answered. "loaded": only its loader ran, and the weights
  // are right. Or "refused", "wrong", "not run".
  std::string_view outcome;
  std::string_view said = {};  // why, or the engine's message
  // The only architectures that this applies to, separated by commas.
  std::string_view only = {};
};
absl::Span<const EngineRun> EngineRuns();

// "dense", "experts", "images" or "encoder"; "other" for kinds not tried.
std::string_view KindOf(const checkpoint::Model& model);

// The row for an engine and a plan; nullptr if it was not run.
const EngineRun* FindEngineRun(std::string_view engine,
                               const checkpoint::Model& model,
                               const checkpoint::ConversionPlan& plan);
// Whether the result justifies a recommendation.
bool IsGood(const EngineRun* run);

// "LlamaForCausalLM"; "" if config.json does not name a class.
std::string ClassOf(const checkpoint::Model& model);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MODELS_ENGINES_H_
