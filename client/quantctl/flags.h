// Command-line flags that several commands of quantctl share.
#ifndef QUANTD_CLIENT_QUANTCTL_FLAGS_H_
#define QUANTD_CLIENT_QUANTCTL_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "client/quantctl/commands.h"

namespace quantd::quantctl {

// An option whose text is converted by `parse`, which returns std::optional;
// `legal` describes the valid texts.
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
// An output that is a .safetensors file, or a .npy file if `help` mentions it.
void AddOutput(CLI::App* app, Options* o, const char* help);
// The axis at which the dimensions are split into rows and columns.
void AddFlatten(CLI::App* app, Options* o);
// The rotation's dimension, signs and policy: all that `amax` needs of it.
void AddRotation(CLI::App* app, Options* o);
void AddSplits(CLI::App* app, Options* o);
// All fields of QuantizeOptions.
void AddQuantize(CLI::App* app, Options* o);
CLI::Option* AddDType(CLI::App* app, Options* o, const char* help);

// Settles what depends on several flags: the usage implied by --rht, the signs,
// the seed. INVALID_ARGUMENT if flags contradict each other.
absl::Status Settle(Options* o);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_FLAGS_H_
