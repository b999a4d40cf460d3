// Command-line flags that several commands of quantctl share, and the choice of
// the server by its flags, the environment and defaults.
#ifndef QUANTD_CLIENT_QUANTCTL_FLAGS_H_
#define QUANTD_CLIENT_QUANTCTL_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "client/quantctl/commands.h"

namespace quantd::quantctl {

// Adds an option for `value`. Help shows `type` for the value.
template <typename T>
CLI::Option* Add(CLI::App* app, const char* name, T* value, const char* type,
                 const std::string& help) {
  return app->add_option(name, *value, help)->type_name(type);
}
// Adds an option with several values, separated by commas.
template <typename T>
CLI::Option* AddList(CLI::App* app, const char* name, T* values,
                     const char* type, const std::string& help) {
  return Add(app, name, values, type, help)
      ->delimiter(',')
      ->allow_extra_args(false);
}

// Adds an option whose text `parse` converts to a std::optional. Its value goes
// to `to`, a pointer or a function. `legal` lists the valid texts for help and
// errors.
template <typename Parse, typename To>
CLI::Option* Named(CLI::App* app, const char* name, const char* type,
                   const std::string& help, const std::string& legal,
                   Parse parse, To to) {
  return app
      ->add_option_function<std::string>(
          name,
          [=](const std::string& text) {
            const auto value = parse(text);
            if (!value) {
              throw CLI::ValidationError(name,
                                         "expected " + legal + ", got " + text);
            }
            if constexpr (std::is_pointer_v<To>) {
              *to = *value;
            } else {
              to(*value);
            }
          },
          help + ": " + legal)
      ->type_name(type);
}

// Adds --json and --verbose, with these descriptions.
void AddJson(CLI::App* app, Options* o,
             const char* json = "Print one JSON object instead of a table",
             const char* verbose = "Name every skipped tensor");
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

void AddServer(CLI::App* app, Options* o);

// Whether 127.0.0.1 refuses connections to `port`. False if unknown.
bool Refuses(uint16_t port);

// Sets the server of a command if none is named: "local" if --transport is
// local, or if no transport is named and the default address refuses
// connections, with a message on stderr. Otherwise the default address.
void SettleServer(Options* o);

// Sets the token from the environment and adds missing ports. INVALID_ARGUMENT
// if a renamed variable is still set.
absl::Status SettleConnection(Options* o);

// INVALID_ARGUMENT if the named transport cannot reach the named server.
absl::Status CheckTransport(const Options& o);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_FLAGS_H_
