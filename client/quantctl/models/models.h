// The commands of quantctl that work on whole models.
#ifndef QUANTD_CLIENT_QUANTCTL_MODELS_MODELS_H_
#define QUANTD_CLIENT_QUANTCTL_MODELS_MODELS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/checkpoint/plan.h"
#include "client/quantctl/commands.h"

namespace quantd::quantctl {

struct ConvertOptions {
  std::string in;
  std::string out;
  checkpoint::Selection selection;
  bool automatic = false;           // --format auto
  std::vector<std::string> shards;  // empty: all
  std::string target;
  std::string rules_file;   // to read; empty: none
  std::string write_rules;  // empty: beside `out`
  std::string input_amax_file;
  std::string report;  // a directory; empty: none
  bool dry_run = false;
  bool statistics = false;
  uint64_t memory_mib = 1280;
};

struct CheckOptions {
  std::string model;
  std::string other;                      // to compare with, or to write
  std::string original;                   // empty: none
  std::string report;                     // a directory; empty: none
  std::optional<double> fail_below = {};  // dB
  std::optional<Profile> profile = {};
  checkpoint::Dialect dialect = checkpoint::Dialect::kNone;  // none: not named
};

int RunInspect(const Options& options, const CheckOptions& check);
int RunLint(const Options& options, const CheckOptions& check);
int RunRepair(const Options& options, const CheckOptions& check);
int RunCompare(const Options& options, const CheckOptions& check);
int RunVerify(const Options& options, const CheckOptions& check);
int RunConvert(const Options& options, const ConvertOptions& convert);

// `run` is set to the one that the command line names.
void AddModelCommands(CLI::App* app, Options* o,
                      std::function<int(const Options&)>* run);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MODELS_MODELS_H_
