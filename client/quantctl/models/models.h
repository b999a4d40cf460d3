// The commands of quantctl for whole models, and what they share.
#ifndef QUANTD_CLIENT_QUANTCTL_MODELS_MODELS_H_
#define QUANTD_CLIENT_QUANTCTL_MODELS_MODELS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/checkpoint/advise/advise.h"
#include "client/checkpoint/check/compare.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"
#include "client/files/quantized_file.h"
#include "client/quantctl/commands.h"
#include "client/quantctl/models/model_service.h"

namespace quantd::quantctl {

struct ConvertOptions {
  std::string in;
  std::string out;
  checkpoint::Selection selection;
  bool automatic = false;     // --format auto
  bool format_named = false;  // by --format
  bool scale_search = false;
  std::vector<std::string> shards;  // empty: all
  std::string target;
  std::string rules_file;   // file to read; "": none
  std::string write_rules;  // file to write; "": beside `out`
  std::string input_amax_file;
  std::string kv_cache;  // "fp8"; "": no scales of the KV cache
  std::string report;    // directory; "": no report
  bool force = false;
  bool dry_run = false;
  bool statistics = false;
  uint64_t memory_mib = kUsualMemoryMib;
};

struct CheckOptions {
  std::string model;
  std::string other;     // OTHER of compare, or OUT of repair
  std::string original;  // "" if not given
  std::string report;    // directory; "": no report
  bool force = false;
  std::optional<double> fail_below = {};  // dB
  std::optional<Profile> profile = {};
  checkpoint::Dialect dialect = checkpoint::Dialect::kNone;  // kNone: not given
};

// Opens a model. If the path does not exist but looks like a model on the Hub,
// the NOT_FOUND error shows how to download it.
absl::StatusOr<checkpoint::Model> OpenModel(
    const std::string& path, const std::vector<std::string>& only = {});

// Checks like CheckOutput whether a command may write `out`. `force` also
// allows replacing a model.
absl::Status MayWrite(const checkpoint::Model& model, const std::string& out,
                      bool force);
// Checks with MayWrite, then removes an existing model at `out`.
absl::Status Clear(const checkpoint::Model& model, const std::string& out,
                   bool force);

// Creates the directory if needed and checks that files can be written to it,
// so that errors show before hours of work.
absl::Status PrepareReport(const std::string& directory);

// Writes the report on model `b`, whose original is `a`. `notes` are added to
// its warnings.
absl::Status WriteReport(const std::string& directory,
                         const checkpoint::Model& a, const checkpoint::Model& b,
                         checkpoint::ModelDifference difference,
                         const std::vector<std::string>& notes);

int RunInspect(const Options& options, const CheckOptions& check);
int RunLint(const Options& options, const CheckOptions& check);
int RunRepair(const Options& options, const CheckOptions& check);
int RunCompare(const Options& options, const CheckOptions& check);
int RunVerify(const Options& options, const CheckOptions& check);
int RunConvert(const Options& options, const ConvertOptions& convert);

// Adds the commands for models to `app`. Parsing the command line sets `run` to
// the function of the command.
void AddModelCommands(CLI::App* app, Options* o,
                      std::function<int(const Options&)>* run);

// Prints the formats of each group of weights as a table, or as a JSON event.
void PrintAdvice(const Options& options, const checkpoint::Advice& advice);

// Reads a file of rules. Each line is "PATTERN=FORMAT", or a comment after '#'.
absl::StatusOr<std::vector<std::string>> ReadRules(const std::string& path);
absl::Status WriteRules(const std::string& path, const ConvertOptions& convert,
                        const checkpoint::Advice& advice);
// The path to which rules are written: --write-rules, or beside the output.
std::string RulesPathFor(const ConvertOptions& convert);

// The functions below handle files of `quantctl quantize`, whose layout is not
// one of the dialects. This one opens a file written by `quantctl quantize`.
// Returns nullopt for other files.
std::optional<QuantizedFile> OpenOwn(const std::string& path);

int InspectOwn(const Options& options, const std::string& path,
               const QuantizedFile& file);
int LintOwn(const Options& options, const std::string& path,
            const QuantizedFile& file);
// Compares two files, decoding quantized tensors in this process. `quantctl
// quantize` must have written at least one of them; the other may be any file
// of tensors.
absl::StatusOr<checkpoint::ModelDifference> CompareOwn(const std::string& a,
                                                       const std::string& b);

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

#endif  // QUANTD_CLIENT_QUANTCTL_MODELS_MODELS_H_
