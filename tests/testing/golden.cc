#include "tests/testing/golden.h"

#include <bit>
#include <cstring>

namespace quantd {

// Defined in a file made from the JSON at build time.
extern const char kGoldenJson[];

const nlohmann::json& Golden() {
  static const auto& json =
      *new nlohmann::json(nlohmann::json::parse(kGoldenJson));
  return json;
}

oracle::Bytes GoldenTensor(oracle::Element e, const nlohmann::json& bits) {
  const size_t size = oracle::ElementSize(e);
  oracle::Bytes out;
  for (uint32_t v : bits) {
    out.resize(out.size() + size);
    std::memcpy(&out[out.size() - size], &v, size);
  }
  return out;
}

oracle::Bytes GoldenBytes(const nlohmann::json& bytes) {
  return bytes.get<oracle::Bytes>();
}

float GoldenFloat(const nlohmann::json& bits) {
  return std::bit_cast<float>(bits.get<uint32_t>());
}

}  // namespace quantd
