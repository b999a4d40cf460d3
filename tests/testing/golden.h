// The golden vectors of tests/golden/, compiled into the binary so that it runs
// anywhere.
#ifndef QUANTD_TESTS_TESTING_GOLDEN_H_
#define QUANTD_TESTS_TESTING_GOLDEN_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/oracle/oracle.h"

namespace quantd {

// golden.json
const nlohmann::json& Golden();

// A list of bit patterns as the bytes of a tensor with elements `e`, or as
// plain bytes.
oracle::Bytes GoldenTensor(oracle::Element e, const nlohmann::json& bits);
oracle::Bytes GoldenBytes(const nlohmann::json& bytes);
// One fp32 bit pattern.
float GoldenFloat(const nlohmann::json& bits);

// One vector of formats.json: a bf16 input and one copy of the output.
struct FormatVector {
  std::string name;
  oracle::QuantizeSpec spec;
  oracle::Bytes input;
  oracle::Bytes data;
  // Stored scales by line, then by block, without padding.
  std::vector<uint32_t> scales;
  std::vector<float> amax;
  std::vector<float> decoded;
  std::vector<float> next_scale;
  std::vector<float> history;
};
const std::vector<FormatVector>& FormatVectors();
// profiles.json
const nlohmann::json& GoldenProfiles();
// libraries.json
const nlohmann::json& GoldenLibraries();
// Hex digits as bytes.
oracle::Bytes GoldenHex(const nlohmann::json& digits);
// The scales of a copy quantized with `spec`, in the order of
// FormatVector::scales.
std::vector<uint32_t> ScalesOf(const oracle::QuantizeSpec& spec,
                               const oracle::Copy& copy);

}  // namespace quantd

#endif  // QUANTD_TESTS_TESTING_GOLDEN_H_
