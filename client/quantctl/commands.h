// Declarations shared by quantctl's commands.
#ifndef QUANTD_CLIENT_QUANTCTL_COMMANDS_H_
#define QUANTD_CLIENT_QUANTCTL_COMMANDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/file.h"
#include "client/quantctl/progress.h"
#include "client/quantctl/report.h"
#include "client/quantctl/tensor_input.h"
#include "client/quantctl/terminal/exit_codes.h"
#include "quantd/client.h"
#include "quantd/pieces.h"
#include "quantd/plan.h"
#include "quantd/quantized_tensor.h"

namespace quantd::quantctl {

inline constexpr char kDefaultServer[] = "127.0.0.1:50151";
inline constexpr uint16_t kDefaultPort = 50151;

struct Options {
  std::string server = kDefaultServer;
  std::string memory_socket;           // empty: no memory is shared
  std::optional<Transport> transport;  // set: any other transport is an error
  Credentials credentials;
  double deadline_seconds = 30;
  bool json = false;
  bool verbose = false;
  std::string input;
  std::string output;
  std::vector<std::string> tensors;  // empty: all that can be processed
  int flatten_axis = -1;
  QuantizeOptions quantize;
  // From the command line; unspecified: not given.
  Usage usage = Usage::kUnspecified;
  std::string sign_mask;  // hexadecimal; empty: not named
  std::optional<uint64_t> sign_seed;
  std::optional<uint64_t> seed;  // for stochastic rounding
  AmaxDomain domain = AmaxDomain::kTensor;
  DType dtype = DType::kUnspecified;         // of the decoded tensor
  Usage decode_usage = Usage::kUnspecified;  // the copy to decode
  std::optional<Profile> decode_profile;     // decode as this profile does
  std::vector<int64_t> shape;                // for `plan` without a file
  bool kernels = false;                      // `plan` shows kernels
  int64_t sample_rows = 1024;
  int64_t sample_cols = 1024;
  uint64_t sample_seed = 20260101;
};

// The commands. Each prints its report and returns an exit code.
int RunInfo(const Options& options);
int RunQuantize(const Options& options);
int RunDequantize(const Options& options);
int RunAmax(const Options& options);
int RunRoundtrip(const Options& options);
int RunPlan(const Options& options);
int RunSample(const Options& options);

// A client for the server that the options name.
absl::StatusOr<std::unique_ptr<Client>> Connect(const Options& options);
CallOptions CallOf(const Options& options);
// Settings for sending tensors in pieces. Asks the server for its limits.
absl::StatusOr<PieceOptions> PiecesOf(Client& client, const Options& options,
                                      Progress* progress);

// The error for a call that did not use the transport named by --transport.
absl::Status OtherWay(Transport wanted, const std::string& taken);

// The exit code for a failed call.
int CodeOf(const absl::Status& status);
// Prints the error on stderr and, if `code` shows that a server was involved,
// what to do next.
void Explain(const Options& options, int code, const absl::Status& status);
// Explains the error, also on stdout with --json. Returns `code`.
int Fail(const Options& options, int code, const absl::Status& status);

// Whether an error is an option's fault rather than the input's.
bool IsOfOption(const absl::Status& status);
// Fails with the code for an invalid input or plan, or for an invalid option.
int FailToOpen(const Options& options, const absl::Status& status);

// Fails with the code for a failed Connect: an invalid option, or something
// that is missing.
int FailToConnect(const Options& options, const absl::Status& status);

// Opens options.input and marks tensors that cannot be processed; kBadInput if
// none is left. `judge` returns what is wrong with a tensor of a legal type.
absl::StatusOr<TensorInput> OpenInput(
    const Options& options,
    const std::function<absl::Status(const TensorDesc&)>& judge);
// Opens the input, and marks tensors that --format and its options exclude.
absl::StatusOr<TensorInput> OpenToQuantize(const Options& options);

// The remaining tensors, in order.
std::vector<const InputTensor*> Eligible(const TensorInput& input);
uint64_t BytesOf(const std::vector<const InputTensor*>& tensors);

// A report with its head and the skipped tensors filled in.
Report ReportOf(const char* command, const Options& options,
                const TensorInput& input);
Record RecordOf(const InputTensor& tensor);
// Records the device, transport and statistics of a result.
void Credit(const Result& result, Record* record);

// A row for each copy in the tensor.
std::vector<CopyRow> CopiesOf(const QuantizedTensor& q);

// Opens the command's output: a file, or standard output if options.output is
// "-"; never the input file. If standard output holds the data, printing goes
// to stderr from then on.
absl::StatusOr<OutputFile> OpenOutput(const Options& options,
                                      std::optional<FileIdentity> source);

// Prints the report and what to do about the first error. Returns the exit
// code.
int Finish(const Options& options, Report* report);
// Finishes a command that writes a file: calls `commit` if no tensor failed;
// otherwise nothing is written.
int FinishFile(const Options& options, Report* report,
               const std::function<absl::Status()>& commit);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_COMMANDS_H_
