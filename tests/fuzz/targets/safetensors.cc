// Fuzzes headers of safetensors files, and the metadata of quantized ones.
#include "client/files/safetensors.h"

#include <nlohmann/json.hpp>
#include <string>

#include "client/files/quantized_file.h"
#include "tests/fuzz/targets/memory_file.h"
#include "tests/fuzz/targets/target.h"

namespace quantd {
namespace {

using fuzz::Check;
using nlohmann::json;

// Compares an accepted header with another parser's result.
void Compare(std::string_view text, const safetensors::Header& header) {
  const json tree = json::parse(text, nullptr, false);
  Check(tree.is_object(), "accepted a header that is not a JSON object");
  size_t others = 0;
  if (const auto metadata = tree.find("__metadata__"); metadata != tree.end()) {
    ++others;
    Check(*metadata == json(header.metadata), "different metadata");
  }
  Check(tree.size() == header.tensors.size() + others,
        "a different number of tensors");
  size_t end = 0;
  for (const safetensors::Tensor& t : header.tensors) {
    const auto found = tree.find(t.name);
    Check(found != tree.end(), "a parsed tensor that is not in the JSON");
    Check(found->at("dtype") == t.dtype, "a different type");
    Check(found->at("shape") == json(t.shape), "a different shape");
    Check(found->at("data_offsets") == json({t.offset, t.offset + t.size}),
          "different offsets");
    Check(t.offset == end, "a hole, or overlapping tensors");
    end = t.offset + t.size;
  }
}

// Checks that a header is the same after it is written and read.
void RoundTrip(safetensors::Header header) {
  const auto head = safetensors::MakeHead(&header.tensors, header.metadata);
  Check(head.ok(), "cannot be written again: " + head.status().ToString());
  size_t bytes = 0;
  for (const auto& t : header.tensors) bytes += t.size;
  const auto again =
      safetensors::ParseHeader(std::string_view(*head).substr(8), bytes);
  Check(again.ok(), "cannot be read again: " + again.status().ToString());
  Check(again->tensors.size() == header.tensors.size() &&
            again->metadata == header.metadata,
        "another header");
}

void ReadFile(std::string_view bytes) {
  static fuzz::MemoryFile file;
  file.Write(bytes);
  const auto opened = QuantizedFile::Open(file.path());
  if (!opened.ok()) {
    return fuzz::CheckRefusal(opened.status(),
                              {absl::StatusCode::kInvalidArgument});
  }
  for (const std::string& name : opened->names()) {
    if (opened->Describe(name).ok()) opened->Load(name).status().IgnoreError();
  }
}

}  // namespace
}  // namespace quantd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quantd::fuzz::Input input(data, size);
  if (input.Byte() % 4 == 0) {
    quantd::ReadFile(input.Rest());
    return 0;
  }
  // Two bytes give the size of the buffer, whose content is not read.
  const size_t buffer = input.Byte() * size_t{256} + input.Byte();
  const std::string_view text = input.Rest();
  auto header = quantd::safetensors::ParseHeader(text, buffer);
  if (!header.ok()) {
    quantd::fuzz::CheckRefusal(header.status(),
                               {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  quantd::Compare(text, *header);
  quantd::RoundTrip(*std::move(header));
  return 0;
}
