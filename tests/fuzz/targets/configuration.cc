// The configuration file. What is accepted is written as the server tells it,
// and means the same when it is read again.
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
    Check(code == 2, "ended otherwise than with wrong usage");
    return 0;
  }
  const auto legal = quantd::Validate(command.options);
  if (!legal.ok()) {
    quantd::fuzz::CheckRefusal(legal, {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  for (const quantd::Setting& setting : command.settings) {
    // Not shown, or not to be written in a line.
    if (setting.value == "***" ||
        setting.value.find_first_of("\"") != std::string::npos) {
      return 0;
    }
  }
  const std::string text = quantd::ToText(command.settings);
  file.Write(text);
  quantd::CommandLine again;
  Check(quantd::Read(file.path(), &again) == -1,
        "wrote what it does not read:\n" + text);
  for (size_t i = 0; i < command.settings.size(); ++i) {
    Check(again.settings[i].value == command.settings[i].value,
          "another " + command.settings[i].name);
  }
  return 0;
}
