// Fuzzes the file of tokens, and the headers of calls.
#include "server/net/tokens.h"

#include <string>

#include "proto/net/trace_context.h"
#include "tests/fuzz/targets/memory_file.h"
#include "tests/fuzz/targets/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quantd::fuzz::Check;
  static quantd::fuzz::MemoryFile file;
  quantd::fuzz::Input input(data, size);
  const std::string_view header = input.Bytes(input.Byte() % 64);
  const std::string_view token = quantd::BearerToken(header);
  Check(header.find(token) != std::string_view::npos,
        "a token that is not in the header");
  if (const auto trace = quantd::wire::ParseTraceparent(header)) {
    Check(header.find(trace->trace()) == 3 &&
              header.substr(36, 16) == trace->span(),
          "a trace that is not in the header");
    for (const std::string_view id : {trace->trace(), trace->span()}) {
      Check(
          id.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
              id.find_first_not_of('0') != std::string_view::npos,
          "an invalid id");
    }
  }
  const std::string text(input.Rest());
  file.Write(text);
  const auto tokens = quantd::TokenHashes::Load(file.path());
  if (!tokens.ok()) {
    quantd::fuzz::CheckRefusal(tokens.status(),
                               {absl::StatusCode::kFailedPrecondition});
    // A line that is not a hash may be a token in plain text, which an error
    // must not repeat. Text that every error contains is excluded.
    file.Write("x");
    const auto usual = quantd::TokenHashes::Load(file.path());
    Check(text.size() < 16 || text.find('\n') != std::string::npos ||
              usual.status().message().find(text) != std::string::npos ||
              tokens.status().message().find(text) == std::string::npos,
          "a token in an error");
    return 0;
  }
  Check(tokens->size() > 0 && tokens->size() <= 1024, "too many tokens");
  Check(tokens->Find("") == nullptr, "an empty token is accepted");
  tokens->Find(token);
  return 0;
}
