// Fuzzes the descriptions of quantized tensors in files. A legal description is
// written, read and written again, and both texts must be equal.
#include <string>

#include "client/files/quantized_description.h"
#include "client/files/quantized_file.h"
#include "quantd/plan.h"
#include "tests/fuzz/targets/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quantd::fuzz::Check;
  using quantd::fuzz::CheckRefusal;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto description = quantd::client::ParseDescription(text);
  if (!description.ok()) {
    CheckRefusal(description.status(), {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  const auto plan =
      quantd::MakeQuantizePlan(description->tensor, description->options);
  if (!plan.ok()) {
    CheckRefusal(plan.status(), {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  const std::string once = quantd::client::Describe(*description);
  const auto again = quantd::client::ParseDescription(once);
  Check(again.ok(), "cannot read its own output: " + once);
  Check(quantd::client::Describe(*again) == once, "another description");
  quantd::QuantizedFile::Parts("w", description->tensor, description->options);
  return 0;
}
