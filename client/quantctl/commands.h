// quantctl: the pieces its commands share.
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
  std::optional<Transport> transport;  // the only one that will do
  Credentials credentials;
  double deadline_seconds = 30;
  bool json = false;
  bool verbose = false;
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
  std::optional<Profile> decode_profile;     // whose decoding, if another's
  std::vector<int64_t> shape;                // of `plan` without a file
  bool kernels = false;                      // `plan` tells kernels
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
// How tensors go to that server, which is asked for its limits.
absl::StatusOr<PieceOptions> PiecesOf(Client& client, const Options& options,
                                      Progress* progress);

// Why a call does not count that did not go the way that --transport names.
absl::Status OtherWay(Transport wanted, const std::string& taken);

// The exit code for a failed call.
int CodeOf(const absl::Status& status);
// Says on stderr what is wrong and, where `code` says that a server had a part
// in it, what to do next.
void Explain(const Options& options, int code, const absl::Status& status);
// The same, with --json on stdout too. Returns `code`.
int Fail(const Options& options, int code, const absl::Status& status);

// Whether an error is an option's fault and not that of what is read.
bool IsOfOption(const absl::Status& status);
// The same where an input, or a plan for it, is no good: for an option that is
// wrong, or for the input.
int FailToOpen(const Options& options, const absl::Status& status);

// The same where Connect failed: for a bad option, or for what is not there.
int FailToConnect(const Options& options, const absl::Status& status);

// Opens options.input and marks what cannot be worked on; kBadInput when
// nothing is left. `judge` says what is wrong with a tensor of legal type.
absl::StatusOr<TensorInput> OpenInput(
    const Options& options,
    const std::function<absl::Status(const TensorDesc&)>& judge);
// The same with what --format and its options say.
absl::StatusOr<TensorInput> OpenToQuantize(const Options& options);

// The tensors left, in order.
std::vector<const InputTensor*> Eligible(const TensorInput& input);
uint64_t BytesOf(const std::vector<const InputTensor*>& tensors);

// A report with its head filled in, and the tensors that were passed over.
Report ReportOf(const char* command, const Options& options,
                const TensorInput& input);
Record RecordOf(const InputTensor& tensor);
// Who did the work and what was found.
void Credit(const Result& result, Record* record);

// A row for each copy of it.
std::vector<CopyRow> CopiesOf(const QuantizedTensor& q);

// Where the command writes: a file, or standard output where options.output is
// "-"; never the file that is read. What is printed goes to stderr from here on
// where standard output holds the data.
absl::StatusOr<OutputFile> OpenOutput(const Options& options,
                                      std::optional<FileIdentity> source);

// Prints the report and what to do about the first error; the exit code.
int Finish(const Options& options, Report* report);
// The same of a command that writes a file, which `commit` finishes where no
// tensor failed; else nothing is written.
int FinishFile(const Options& options, Report* report,
               const std::function<absl::Status()>& commit);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_COMMANDS_H_
