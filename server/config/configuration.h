// The layers of configuration below the command line: the environment, then
// one file. Names come from the flags: --max-wait-ms is QUANTD_MAX_WAIT_MS and
// `max-wait-ms = 5000`. A variable that is set but empty counts as not set.
#ifndef QUANTD_SERVER_CONFIG_CONFIGURATION_H_
#define QUANTD_SERVER_CONFIG_CONFIGURATION_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace CLI {
class App;
}  // namespace CLI

namespace quantd {

struct Setting {
  std::string name;    // "max-wait-ms"
  std::string value;   // as text; what looks like a secret is masked
  std::string source;  // "flag", "environment", "file" or "default"
};

// What is in effect, once the layers are read.
struct Configuration {
  std::vector<Setting> settings;  // nothing secret
  // Variables QUANTD_... that mean nothing here. Left out are QUANTD_SERVER,
  // which is for clients, and what Kubernetes sets beside a service of a name
  // like quantd (QUANTD_SERVICE_HOST, QUANTD_PORT_50151_TCP).
  std::vector<std::string> unknown_environment;
};

// Once the command line of `app` has been parsed: fills in what it left open.
// All its flags are settings, but for those of the group `actions` and --help.
// `file_flag` names the flag that names the file; it can be given by the
// environment too. INVALID_ARGUMENT, naming the variable, or the file and its
// key, for values that are no good, keys that no flag has and a file that
// cannot be read.
absl::StatusOr<Configuration> ReadLayers(CLI::App* app,
                                         const std::string& actions,
                                         const std::string& file_flag);

// Lines of a configuration file, each with its source behind it.
std::string ToText(const std::vector<Setting>& settings);
// On one line, for the log.
std::string ToLine(const std::vector<Setting>& settings);

// Whether what should name a file is rather the content of one.
bool LooksLikeSecret(std::string_view value);

}  // namespace quantd

#endif  // QUANTD_SERVER_CONFIG_CONFIGURATION_H_
