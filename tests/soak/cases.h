// Calls with their expected bytes, which a local client computes first.
#ifndef QUANTD_TESTS_SOAK_CASES_H_
#define QUANTD_TESTS_SOAK_CASES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "quantd/client.h"
#include "tests/soak/counts.h"

namespace quantd::soak {

// The request of one call.
struct Case {
  TensorDesc tensor;
  Plan::Options options;
  // The tensor, or the codes for Dequantize.
  std::vector<std::byte> input;
  std::vector<std::byte> scale = {};
  std::vector<float> amax = {};
  // The parts of the result, in order.
  std::vector<std::vector<std::byte>> expected = {};
};

// Makes the call with `input`, which is the case's input or a copy of it.
absl::StatusOr<Result> Ask(Client& client, const Case& one,
                           absl::Span<const std::byte> input,
                           const CallOptions& call = {});

bool IsRight(const Case& one, const Result& result);

// Makes cases of one kind of call, in various formats, shapes and sizes.
absl::StatusOr<std::vector<Case>> MakeCases(Kind kind);

}  // namespace quantd::soak

#endif  // QUANTD_TESTS_SOAK_CASES_H_
