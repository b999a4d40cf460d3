// A backend under test that takes the oracle's types, so that both can be given
// the same requests and their results compared.
#ifndef QUANTD_TESTS_TESTING_DEVICE_H_
#define QUANTD_TESTS_TESTING_DEVICE_H_

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/backend.h"
#include "quantd/plan.h"
#include "tests/oracle/oracle.h"
#include "tests/testing/run_plan.h"
#include "tests/testing/tensors.h"

namespace quantd {

DType DTypeOf(oracle::Element e);
// Sets the fields of options that change nothing but the arithmetic.
void SetArithmetic(const QuantizeOptions& options, oracle::QuantizeSpec* spec);

// A device; for the CPU also the instruction set.
struct Target {
  std::string device;  // "cpu", "cuda:0"
  std::string isa;
};
// The name of a target: "cpu:avx2", "cuda:0".
std::string ToString(const Target& target);
// Prints a target in gtest's messages.
void PrintTo(const Target& target, std::ostream* out);
// The name with only letters and digits, for names of tests.
std::string Identifier(const Target& target);
// Every instruction set of the CPU, then every CUDA device. On a machine
// without CUDA, an entry "cuda" stands for the missing device.
std::vector<Target> Targets();
// The first CUDA device, if any.
std::optional<Target> GpuTarget();

struct AmaxFlags {
  bool row = true;
  bool row_rotated = true;
  bool column = true;
  bool column_rotated = true;
};

// Not thread-safe.
class Device {
 public:
  static absl::StatusOr<Device> Open(const Target& target,
                                     BackendOptions options = {});

  Backend& backend() { return *backend_; }
  // The report of the last job that ran.
  const JobReport& report() const { return report_; }

  // `rejected` is set for INVALID_ARGUMENT on "payload"; other errors are
  // returned.
  absl::StatusOr<oracle::Quantized> Quantize(const oracle::QuantizeSpec& spec,
                                             const oracle::Bytes& input);
  absl::StatusOr<oracle::Bytes> Dequantize(const oracle::DequantizeSpec& spec,
                                           const oracle::Copy& copy);
  // Maxima that were not asked for are empty.
  absl::StatusOr<oracle::Amaxes> RhtAmax(const oracle::AmaxSpec& spec,
                                         const AmaxFlags& flags,
                                         const oracle::Bytes& input);
  // Without `output` the result has the input's type.
  absl::StatusOr<oracle::Bytes> ApplyRht(oracle::Element e,
                                         std::optional<oracle::Element> output,
                                         int64_t rows, int64_t cols,
                                         const oracle::Mask& mask, bool inverse,
                                         const oracle::Bytes& input,
                                         int dimension = 16);

 private:
  std::unique_ptr<Backend> backend_;
  JobReport report_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_TESTING_DEVICE_H_
