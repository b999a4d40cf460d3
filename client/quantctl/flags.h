// Command-line flags that several commands of quantctl share.
#ifndef QUANTD_CLIENT_QUANTCTL_FLAGS_H_
#define QUANTD_CLIENT_QUANTCTL_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "client/quantctl/commands.h"

namespace quantd::quantctl {

// Adds an option whose text `parse` converts to a std::optional, which `assign`
// receives. `legal` lists the valid texts for help and errors.
template <typename Parse, typename Assign>
CLI::Option* Named(CLI::App* app, const char* name, const char* type,
                   const std::string& help, const std::string& legal,
                   Parse parse, Assign assign) {
  return app
      ->add_option_function<std::string>(
          name,
          [=](const std::string& text) {
            const auto value = parse(text);
            if (!value) {
              throw CLI::ValidationError(name,
                                         "expected " + legal + ", got " + text);
            }
            assign(*value);
          },
          help + ": " + legal)
      ->type_name(type);
}

void AddJson(CLI::App* app, Options* o);
void AddInput(CLI::App* app, Options* o, const char* what);
// Adds -o for an output that is a .safetensors file, or a .npy file if `help`
// mentions ".npy".
void AddOutput(CLI::App* app, Options* o, const char* help);
// Adds --flatten-axis.
void AddFlatten(CLI::App* app, Options* o);
// Adds the rotation's dimension and signs, and --non-finite.
void AddRotation(CLI::App* app, Options* o);
void AddSplits(CLI::App* app, Options* o);
// Adds options for all fields of QuantizeOptions.
void AddQuantize(CLI::App* app, Options* o);
CLI::Option* AddDType(CLI::App* app, Options* o, const char* help);

// Sets what depends on several flags: the usage that --rht implies, the signs,
// the seed. INVALID_ARGUMENT if flags contradict each other.
absl::Status Settle(Options* o);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_FLAGS_H_
