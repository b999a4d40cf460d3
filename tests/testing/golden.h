// The golden vectors of tests/golden/golden.json, compiled into the binary so
// that it runs anywhere.
#ifndef QUANTD_TESTS_TESTING_GOLDEN_H_
#define QUANTD_TESTS_TESTING_GOLDEN_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/testing/oracle.h"

namespace quantd {

const nlohmann::json& Golden();

// A list of bit patterns as the bytes of a tensor of `e`, or of bytes.
oracle::Bytes GoldenTensor(oracle::Element e, const nlohmann::json& bits);
oracle::Bytes GoldenBytes(const nlohmann::json& bytes);
// One fp32 bit pattern.
float GoldenFloat(const nlohmann::json& bits);

}  // namespace quantd

#endif  // QUANTD_TESTS_TESTING_GOLDEN_H_
