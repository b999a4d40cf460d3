// Fuzzes the configuration file. Accepted settings are written as the server
// prints them, and must have the same values when they are read again.
#include <string>

#include "server/config/options.h"
#include "tests/fuzz/targets/memory_file.h"
#include "tests/fuzz/targets/target.h"

namespace quantd {
namespace {

int Read(const std::string& path, CommandLine* command) {
  std::string words[] = {"quantd", "--check-config", "--config", path};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(),
                  words[3].data(), nullptr};
  return ParseCommandLine(4, argv, command);
}

}  // namespace
}  // namespace quantd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quantd::fuzz::Check;
  static quantd::fuzz::MemoryFile file;
  file.Write({reinterpret_cast<const char*>(data), size});
  quantd::CommandLine command;
  const int code = quantd::Read(file.path(), &command);
  if (code != -1) {
    Check(code == 2, "exited with another code than that of wrong usage");
    return 0;
  }
  const auto legal = quantd::Validate(command.options);
  if (!legal.ok()) {
    quantd::fuzz::CheckRefusal(legal, {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  for (const quantd::Setting& setting : command.settings) {
    // Skips settings that are masked or do not fit into a line.
    if (setting.value == "***" ||
        setting.value.find_first_of("\"") != std::string::npos) {
      return 0;
    }
  }
  const std::string text = quantd::ToText(command.settings);
  file.Write(text);
  quantd::CommandLine again;
  Check(quantd::Read(file.path(), &again) == -1,
        "cannot read its own output:\n" + text);
  for (size_t i = 0; i < command.settings.size(); ++i) {
    Check(again.settings[i].value == command.settings[i].value,
          "reads another value of " + command.settings[i].name);
  }
  return 0;
}
