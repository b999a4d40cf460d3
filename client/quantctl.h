// quantctl: the pieces its commands share.
#ifndef QUANTD_CLIENT_QUANTCTL_H_
#define QUANTD_CLIENT_QUANTCTL_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/quantctl_report.h"
#include "client/quantized_tensor.h"
#include "client/tensor_input.h"
#include "kernels/plan.h"

namespace quantd::quantctl {

// Documented in --help; never renumber one.
enum ExitCode : int {
  kOk = 0,
  kInternal = 1,
  kUsage = 2,
  kBadInput = 3,
  kUnreachable = 4,  // no server, or it stayed busy until the deadline
  kRefused = 5,      // the server (or the rules) refused the request
  kPartly = 6,       // some tensors failed, the others are done
  kCannotWrite = 7,
};

struct Options {
  std::string server = "127.0.0.1:50151";
  Credentials credentials;
  double deadline_seconds = 30;
  bool json = false;
  std::string input;
  std::string output;
  std::vector<std::string> tensors;  // empty: all that can be
  int flatten_axis = -1;
  QuantizeOptions quantize;
  Usage usage = Usage::kUnspecified;  // as named; unspecified: not named
  std::string sign_mask;              // hexadecimal; empty: not named
  std::optional<uint64_t> sign_seed;
  std::optional<uint64_t> seed;  // of stochastic rounding
  AmaxDomain domain = AmaxDomain::kTensor;
  DType dtype = DType::kUnspecified;         // of what is decoded
  Usage decode_usage = Usage::kUnspecified;  // the copy to decode
  std::vector<int64_t> shape;                // of `plan` without a file
  std::string plan_server;                   // empty: planned here
  int64_t sample_rows = 1024;
  int64_t sample_cols = 1024;
  uint64_t sample_seed = 20260101;
};

// The commands. Each prints its report and says how it went.
int RunInfo(const Options& options);
int RunQuantize(const Options& options);
int RunDequantize(const Options& options);
int RunAmax(const Options& options);
int RunRoundtrip(const Options& options);
int RunPlan(const Options& options);
int RunSample(const Options& options);

// A client for the server the options name.
absl::StatusOr<std::unique_ptr<Client>> Connect(const Options& options);
CallOptions CallOf(const Options& options);

// The exit code for a failed call.
int CodeOf(const absl::Status& status);
// Says on stderr what is wrong and what to do next.
void Explain(const Options& options, const absl::Status& status);
// The same, with --json on stdout too. Returns `code`.
int Fail(const Options& options, int code, const absl::Status& status);

// Opens options.input and marks what cannot be worked on; kBadInput when
// nothing is left. `judge` says what is wrong with a tensor of legal type.
absl::StatusOr<TensorInput> OpenInput(
    const Options& options,
    const std::function<absl::Status(const TensorDesc&)>& judge);

// The tensors left, in order.
std::vector<const InputTensor*> Eligible(const TensorInput& input);

// A report with its head filled in, and the tensors that were passed over.
Report ReportOf(const char* command, const Options& options,
                const TensorInput& input);
Record RecordOf(const InputTensor& tensor);
// Who did the work and what was found.
void Credit(const Result& result, Record* record);

// A row for each copy of it.
std::vector<CopyRow> CopiesOf(const QuantizedTensor& q);

// Prints the report and what to do about the first error; the exit code.
int Finish(const Options& options, const Report& report);

// Stopwatch.
class Timer {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
};

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_H_
