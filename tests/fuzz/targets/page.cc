// What strangers say of traces, and the metrics page that `quantctl top` reads.
#include <string>

#include "client/quantctl/top/reading.h"
#include "client/quantctl/top/table.h"
#include "proto/net/trace_context.h"
#include "tests/fuzz/targets/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quantd::fuzz::Check;
  quantd::fuzz::Input input(data, size);
  const std::string_view text = input.Bytes(input.Byte());
  if (const auto trace = quantd::wire::ParseTraceparent(text)) {
    Check(
        text.find(trace->trace()) == 3 && text.substr(36, 16) == trace->span(),
        "a trace from elsewhere");
    for (const std::string_view id : {trace->trace(), trace->span()}) {
      Check(
          id.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
              id.find_first_not_of('0') != std::string_view::npos,
          "an id that is none");
    }
  }
  // Two looks at a server: all of the page, and its first half.
  const std::string_view page = input.Rest();
  auto now = quantd::quantctl::ReadPage(page);
  if (!now.ok()) {
    quantd::fuzz::CheckRefusal(now.status(),
                               {absl::StatusCode::kFailedPrecondition});
    return 0;
  }
  const auto before =
      quantd::quantctl::ReadPage(page.substr(0, page.size() / 2));
  quantd::quantctl::ServerRow row{"host:1", absl::OkStatus(), *now, {}};
  row.activity = quantd::quantctl::Between(
      before.ok() ? *before : quantd::quantctl::Reading(), *now);
  for (const std::string& line : quantd::quantctl::TopTable({row, row})) {
    Check(line.size() <= 80, "a line that is too wide");
    for (const char c : line) Check(c >= ' ' && c <= '~', "no plain text");
  }
  Check(!quantd::quantctl::TopJson({row}).empty(), "no report");
  return 0;
}
