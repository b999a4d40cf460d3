// The command-line flags that several commands of quantctl share.
#ifndef QUANTD_CLIENT_QUANTCTL_FLAGS_H_
#define QUANTD_CLIENT_QUANTCTL_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "client/quantctl/commands.h"

namespace quantd::quantctl {

// An option whose text is turned into a value by `parse`, which gives
// std::optional; `legal` says what it takes.
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
// A .safetensors file, or a .npy file where `help` names one.
void AddOutput(CLI::App* app, Options* o, const char* help);
// Where the dimensions split.
void AddFlatten(CLI::App* app, Options* o);
// Dimension, signs, policy: all that `amax` knows of the rotation.
void AddRotation(CLI::App* app, Options* o);
void AddSplits(CLI::App* app, Options* o);
// Everything that QuantizeOptions have.
void AddQuantize(CLI::App* app, Options* o);
CLI::Option* AddDType(CLI::App* app, Options* o, const char* help);

// What can be settled only when all flags are read: the usage that --rht
// implies, the signs, the seed. INVALID_ARGUMENT for flags that contradict
// each other.
absl::Status Settle(Options* o);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_FLAGS_H_
