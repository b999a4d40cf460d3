// Engines that were run on what `quantctl convert` writes, and what came of it:
// the table by which `next:` recommends, and which ENGINES.md beside this file
// shows.
#ifndef QUANTD_CLIENT_QUANTCTL_MODELS_ENGINES_H_
#define QUANTD_CLIENT_QUANTCTL_MODELS_ENGINES_H_

#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::quantctl {

// Words, for tests/bench/results/tables.py makes the page of these rows.
struct EngineRun {
  std::string_view engine;   // "vLLM"
  std::string_view version;  // and on what it ran: "0.26.0 on an H200"
  std::string_view dialect;
  std::string_view formats;  // with commas; of one model: "fp8 and nvfp4"
  std::string_view kind;     // KindOf
  std::string_view tried;    // models
  // "ran": it answered. "loaded": its loader alone ran, and the weights are
  // right. "refused", "wrong", "not run".
  std::string_view outcome;
  std::string_view said = {};  // why, or the engine's message
  std::string_view only = {};  // of architectures these alone, with commas
};
absl::Span<const EngineRun> EngineRuns();

// "dense", "experts", "images", "encoder"; "other" for what nobody tried.
std::string_view KindOf(const checkpoint::Model& model);

// The row that tells what an engine makes of a plan; nullptr: it was not run.
const EngineRun* FindEngineRun(std::string_view engine,
                               const checkpoint::Model& model,
                               const checkpoint::ConversionPlan& plan);
// Whether that is worth a recommendation.
bool IsGood(const EngineRun* run);

// "LlamaForCausalLM"; "": config.json does not say, or not the name of a class.
std::string ClassOf(const checkpoint::Model& model);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MODELS_ENGINES_H_
