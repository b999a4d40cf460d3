// Fuzzes requests, and the reply that has strings, against protobuf. The first
// byte chooses the message type, the following ones the cuts.
#include <string>

#include "google/protobuf/stubs/logging.h"
#include "tests/fuzz/targets/target.h"
#include "tests/fuzz/wire_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quantd::fuzz::Check;
  // protobuf logs a line for every string that is not UTF-8.
  static const google::protobuf::LogSilencer quiet;
  quantd::fuzz::Input input(data, size);
  const int type = input.Byte() % quantd::wire::kMessageTypes;
  const auto slices = input.Pieces();
  std::string message;
  for (const std::string_view slice : slices) message += slice;
  // Longer heads exceed quantd's own limit, which protobuf does not have.
  if (message.size() > quantd::wire::kMaxHeadBytes) return 0;
  const std::string difference =
      quantd::wire::CheckMessage(type, message, slices);
  Check(difference.empty(), difference);
  return 0;
}
