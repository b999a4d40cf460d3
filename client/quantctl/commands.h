// The options and helper functions that quantctl's commands share.
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
#include "client/quantctl/terminal/terminal.h"
#include "quantd/client.h"
#include "quantd/pieces.h"
#include "quantd/plan.h"
#include "quantd/quantized_tensor.h"

namespace quantd::quantctl {

inline constexpr char kDefaultServer[] = "127.0.0.1:50151";
inline constexpr uint16_t kDefaultPort = 50151;

struct Options {
  std::string server = kDefaultServer;
  std::string memory_socket;           // "": no memory is shared
  std::optional<Transport> transport;  // if set, no other one is allowed
  Credentials credentials;
  double deadline_seconds = 30;
  bool json = false;
  bool verbose = false;
  std::string input;
  std::string output;
  std::vector<std::string> tensors;  // empty: all tensors that can be processed
  int flatten_axis = -1;
  QuantizeOptions quantize;
  // The copies to make; unspecified if not given.
  Usage usage = Usage::kUnspecified;
  std::string sign_mask;  // hexadecimal; "" if not given
  std::optional<uint64_t> sign_seed;
  std::optional<uint64_t> seed;  // for stochastic rounding
  AmaxDomain domain = AmaxDomain::kTensor;
  DType dtype = DType::kUnspecified;         // type of the decoded tensor
  Usage decode_usage = Usage::kUnspecified;  // copy to decode
  std::optional<Profile> decode_profile;     // profile by which to decode
  std::vector<int64_t> shape;                // shape for `plan` without a file
  bool kernels = false;                      // whether `plan` shows kernels
  int64_t sample_rows = 1024;
  int64_t sample_cols = 1024;
  uint64_t sample_seed = 20260101;
};

// The commands. Each prints its result and returns an exit code.
int RunInfo(const Options& options);
int RunQuantize(const Options& options);
int RunDequantize(const Options& options);
int RunAmax(const Options& options);
int RunRoundtrip(const Options& options);
int RunPlan(const Options& options);
int RunSample(const Options& options);

// Creates a client for the server that the options name.
absl::StatusOr<std::unique_ptr<Client>> Connect(const Options& options);
CallOptions CallOf(const Options& options);
// Settings for sending tensors in pieces. Queries the server's limits.
absl::StatusOr<PieceOptions> PiecesOf(Client& client, const Options& options,
                                      Progress* progress);

// The error for a call that used another transport than --transport names.
absl::Status OtherWay(Transport wanted, const std::string& taken);

// The exit code for a failed call.
int CodeOf(const absl::Status& status);
// Prints the error on stderr. Also prints advice if `code` is one of a server's
// errors.
void Explain(const Options& options, int code, const absl::Status& status);
// Calls Explain(), and prints the error on stdout with --json. Returns `code`.
int Fail(const Options& options, int code, const absl::Status& status);

// Calls Fail() with the code for an invalid option or an invalid input.
int FailToOpen(const Options& options, const absl::Status& status);

// Calls Fail() with the code for a failed Connect(): an invalid option, or an
// unreachable server.
int FailToConnect(const Options& options, const absl::Status& status);

// Opens options.input and marks tensors to skip. INVALID_ARGUMENT if none is
// left. `judge` returns the error of a tensor that the options exclude.
absl::StatusOr<TensorInput> OpenInput(
    const Options& options,
    const std::function<absl::Status(const TensorDesc&)>& judge);
// Opens the input and marks tensors that --format and its options exclude.
absl::StatusOr<TensorInput> OpenToQuantize(const Options& options);

// The tensors that are not skipped, in order.
std::vector<const InputTensor*> Eligible(const TensorInput& input);
uint64_t BytesOf(const std::vector<const InputTensor*>& tensors);

// Creates a report with the skipped tensors, but no processed ones.
Report ReportOf(const char* command, const Options& options,
                const TensorInput& input);
Record RecordOf(const InputTensor& tensor);
// Copies the device, transport and statistics of a result to `record`.
void Credit(const Result& result, Record* record);

// A tensor to process, and the client for its calls.
struct TensorCalls {
  Client& client;
  const Options& options;
  const InputTensor& tensor;
  PieceOptions pieces;
};
// Connects, and adds a record of each tensor to `report`. `work` fills it in,
// and its error becomes the record's. Returns kOk, or the exit code of an error
// that has been reported.
int ForEachTensor(
    const Options& options, const TensorInput& input, Report* report,
    const std::function<absl::Status(const TensorCalls&, Record*)>& work);

// A row of the report for each copy in the tensor.
std::vector<CopyRow> CopiesOf(const QuantizedTensor& q);

// Opens the command's output: a file, or standard output if options.output is
// "-". Returns an error if it is the file `source`. If standard output receives
// the data, later printing goes to stderr.
absl::StatusOr<OutputFile> OpenOutput(const Options& options,
                                      std::optional<FileIdentity> source);

// Prints the report, and advice about the first error. Returns the exit code.
// For a command that writes a file, `commit` is called if no tensor failed;
// otherwise the file is dropped.
int Finish(const Options& options, Report* report,
           const std::function<absl::Status()>& commit = {});

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_COMMANDS_H_
