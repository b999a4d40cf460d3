// libFuzzer's way in. The first byte chooses the message, the second how many
// cuts, the bytes after it where they are.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/fuzz/wire_check.h"
#include "tests/proto/raw_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const int type = data[0] % quantd::wire::kMessageTypes;
  const size_t count = std::min<size_t>(data[1] % 16, size - 2);
  const std::string message(reinterpret_cast<const char*>(data) + 2 + count,
                            size - 2 - count);
  if (message.size() > quantd::wire::kMaxHeadBytes) return 0;
  std::vector<size_t> cuts;
  for (size_t i = 0; i < count; ++i) {
    cuts.push_back(std::min<size_t>(data[2 + i], message.size()));
  }
  std::sort(cuts.begin(), cuts.end());
  const quantd::wire::Verdict verdict = quantd::wire::CheckMessage(
      type, message, quantd::wire::Cut(message, cuts));
  if (!verdict.difference.empty()) {
    std::fprintf(stderr, "%s\n", verdict.difference.c_str());
    std::abort();
  }
  return 0;
}
