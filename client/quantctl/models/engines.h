// Results of running engines on output of `quantctl convert`. The line "next:"
// of convert recommends engines by this table, and ENGINES.md shows it.
#ifndef QUANTD_CLIENT_QUANTCTL_MODELS_ENGINES_H_
#define QUANTD_CLIENT_QUANTCTL_MODELS_ENGINES_H_

#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::quantctl {

struct EngineTried {
  std::string_view engine;   // "vLLM"
  std::string_view version;  // with the hardware: "0.26.0 on an H200"
};

// A row of the table. tests/bench/results/tables.py parses the rows in
// engines.cc as text to make ENGINES.md.
struct EngineRun {
  EngineTried tried_with;
  std::string_view dialect;
  // Formats, separated by commas. "fp8 and nvfp4" means both in one model.
  std::string_view formats;
  std::string_view kind;   // see KindOf
  std::string_view tried;  // names of the models
  // "ran": the engine gave right answers. "loaded": only its loader ran, with
  // the right weights. "refused": it reported an error. "wrong": it gave wrong
  // results. "not run".
  std::string_view outcome;
  std::string_view said = {};  // the reason, or the engine's message
  // The architectures to which the row applies, separated by commas; empty:
  // all.
  std::string_view only = {};
};
absl::Span<const EngineRun> EngineRuns();

// The kind of the model: "dense", "experts", "images" or "encoder"; "other" if
// that kind was not tried.
std::string_view KindOf(const checkpoint::Model& model);

// The row of an engine for the model and plan; nullptr if no row matches.
const EngineRun* FindEngineRun(std::string_view engine,
                               const checkpoint::Model& model,
                               const checkpoint::ConversionPlan& plan);
// Whether the outcome is "ran" or "loaded".
bool IsGood(const EngineRun* run);

// The model's class, such as "LlamaForCausalLM"; "" if config.json names none.
std::string ClassOf(const checkpoint::Model& model);
// Whether models of the class generate text.
bool IsText(const std::string& name);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MODELS_ENGINES_H_
