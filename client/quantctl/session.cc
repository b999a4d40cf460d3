#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "client/quantctl/commands.h"
#include "client/quantctl/terminal/terminal.h"
#include "fmt/format.h"
#include "quantd/error.h"
#include "quantd/local.h"

namespace quantd::quantctl {
namespace {

bool Failed(const Record& r) { return !r.error.ok(); }

// The reason for skipping a tensor that --tensor does not name. Not reported.
constexpr char kNotNamed[] = "not named";

// The skipped tensors to report.
std::vector<Skipped> SkippedOf(const TensorInput& input) {
  std::vector<Skipped> skipped;
  for (const InputTensor& t : input.tensors()) {
    if (t.skip.reason.empty() || t.skip.reason == kNotNamed) continue;
    skipped.push_back({t.name, t.skip.kind, t.skip.reason});
  }
  return skipped;
}

void RefuseOtherWays(Transport wanted, Report* report) {
  for (Record& r : report->tensors) {
    if (!r.error.ok() || r.bytes_in == 0 ||
        r.transports == std::set<Transport>{wanted}) {
      continue;
    }
    r.error = OtherWay(wanted, TransportsText(r.transports));
  }
}

// Advice for a connection that failed during or after the TLS handshake;
// nullptr if there was no connection. gRPC distinguishes these cases only in
// its message.
const char* TlsHint(const Credentials& credentials,
                    const absl::Status& status) {
  const std::string text = absl::AsciiStrToLower(status.message());
  const auto says = [&](const char* words) {
    return text.find(words) != std::string::npos;
  };
  const bool tls = credentials.tls || !credentials.ca_file.empty() ||
                   !credentials.certificate_file.empty();
  if (says("wrong version number")) {
    return "The server does not use TLS: remove --tls and --tls-ca.";
  }
  if (says("certificate verify failed") || says("not in peer certificate")) {
    return "The server's certificate is not trusted: give the certificate "
           "authority that signed it with --tls-ca, and its name with "
           "--tls-name.";
  }
  // The server broke off the handshake.
  if (!says("socket closed")) return nullptr;
  return tls ? "If the server requires a client certificate, give a valid one "
               "with --tls-cert and --tls-key."
             : "If the server uses TLS, give --tls-ca or --tls.";
}

// Whether an option rather than the input caused the error.
bool IsOfOption(const absl::Status& status) {
  const auto violation = GetFieldViolation(status);
  return violation ? !violation->field.starts_with("tensor")
                   : absl::StartsWith(status.message(), "--");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Connect(const Options& options) {
  ClientOptions client;
  client.deadline = CallOf(options).deadline;
  client.max_in_flight = 2;
  client.credentials = options.credentials;
  client.memory_socket = options.memory_socket;
  auto made = CreateClient(options.server, client);
  if (!made.ok() || options.transport != Transport::kShared) return made;
  // Fails early if the server does not share memory. Otherwise tensors would be
  // sent in messages.
  const auto memory = (*made)->TakeHost(1);
  if (!memory.ok()) return memory.status();
  return made;
}

CallOptions CallOf(const Options& options) {
  CallOptions call;
  call.deadline = std::chrono::milliseconds(
      static_cast<int64_t>(std::ceil(options.deadline_seconds * 1e3)));
  return call;
}

absl::StatusOr<PieceOptions> PiecesOf(Client& client, const Options& options,
                                      Progress* progress) {
  const auto info = client.GetServerInfo(CallOf(options));
  if (!info.ok()) return info.status();
  PieceOptions pieces;
  if (info->max_request_bytes > 0) {
    pieces.request_bytes = info->max_request_bytes;
  }
  pieces.progress = [progress](size_t bytes) { progress->Add(bytes); };
  return pieces;
}

absl::Status OtherWay(Transport wanted, const std::string& taken) {
  return absl::FailedPreconditionError(
      fmt::format("--transport {}: the call used {} (the server's "
                  "--shared-memory-limit may be too small for the tensor)",
                  Name(wanted), taken));
}

int CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kOk;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDeadlineExceeded:
      return kUnreachable;
    default:
      return kRefused;
  }
}

void Explain(const Options& options, int code, const absl::Status& status) {
  fmt::print(stderr, "{} {}\n", Painted(stderr, Colour::kRed, "quantctl:"),
             std::string(status.message()));
  // Only these exit codes come from servers. The status code does not
  // distinguish a full disk from a busy server.
  if (code != kUnreachable && code != kRefused && code != kPartly) return;
  switch (status.code()) {
    case absl::StatusCode::kUnauthenticated:
      fmt::print(stderr,
                 "  Give a token with --token-file or QUANTD_CLIENT_TOKEN. Its "
                 "SHA-256 must be in the server's --token-file.\n");
      break;
    case absl::StatusCode::kUnavailable:
      if (options.transport == Transport::kShared) {
        fmt::print(stderr,
                   "  Start a server on this machine with --memory-socket and "
                   "give the same path here. Without --transport, data that "
                   "cannot be shared is sent.\n");
        break;
      }
      if (const char* hint = TlsHint(options.credentials, status)) {
        fmt::print(stderr, "  {}\n", hint);
        break;
      }
      fmt::print(
          stderr,
          "  Start a server with 'quantd --listen {}', name another one with "
          "--server or QUANTD_SERVER, or use none with --server local.\n",
          options.server.substr(0, options.server.find(',')));
      break;
    case absl::StatusCode::kDeadlineExceeded:
      fmt::print(stderr, "  Allow more time with --deadline (now {} s).\n",
                 options.deadline_seconds);
      break;
    case absl::StatusCode::kResourceExhausted:
      fmt::print(stderr,
                 "  The server is busy: try again later, or wait longer with "
                 "--deadline (now {} s).\n",
                 options.deadline_seconds);
      break;
    default:
      break;
  }
}

int Fail(const Options& options, int code, const absl::Status& status) {
  Explain(options, code, status);
  if (options.json) PrintJsonError(status, code);
  return code;
}

int FailToConnect(const Options& options, const absl::Status& status) {
  const bool usage = absl::IsInvalidArgument(status) ||
                     absl::IsNotFound(status) || absl::IsUnimplemented(status);
  return Fail(options, usage ? kUsage : CodeOf(status), status);
}

int FailToOpen(const Options& options, const absl::Status& status) {
  return Fail(options, IsOfOption(status) ? kUsage : kBadInput, status);
}

absl::StatusOr<TensorInput> OpenToQuantize(const Options& options) {
  return OpenInput(options, [&](const TensorDesc& d) {
    return MakeQuantizePlan(d, options.quantize).status();
  });
}

absl::StatusOr<TensorInput> OpenInput(
    const Options& options,
    const std::function<absl::Status(const TensorDesc&)>& judge) {
  auto input = TensorInput::Open(options.input);
  if (!input.ok()) return input.status();
  const std::vector<std::string>& wanted = options.tensors;
  for (const std::string& name : wanted) {
    const bool there = std::ranges::any_of(
        input->tensors(), [&](const InputTensor& t) { return t.name == name; });
    if (!there) {
      return absl::NotFoundError(
          fmt::format("{}: no tensor \"{}\"", options.input, name));
    }
  }
  const bool file_of_many = HasExtension(options.input, ".safetensors");
  absl::Status wrong_option;  // the first error that an option causes
  for (InputTensor& t : input->tensors()) {
    t.desc.flatten_axis = t.desc.shape.size() == 1 ? -1 : options.flatten_axis;
    const bool named = std::ranges::find(wanted, t.name) != wanted.end();
    std::string& skip = t.skip.reason;
    if (skip.empty()) {
      if (const absl::Status s = judge(t.desc); !s.ok()) {
        t.skip = {kNotAllowed, std::string(s.message())};
        if (IsOfOption(s)) wrong_option.Update(s);
      }
    }
    if (named && !skip.empty()) {
      if (!wrong_option.ok()) return wrong_option;
      return absl::InvalidArgumentError(
          fmt::format("{}: tensor \"{}\": {}", options.input, t.name, skip));
    }
    if (!wanted.empty() && !named && skip.empty()) skip = kNotNamed;
    // Vectors are skipped: norms and biases are small and usually not
    // quantized.
    if (!named && file_of_many && skip.empty() && t.desc.shape.size() == 1) {
      t.skip = {"vectors", "a vector; name it with --tensor to process it"};
    }
  }
  if (!Eligible(*input).empty()) return input;
  if (!wrong_option.ok()) return wrong_option;
  const std::vector<Skipped> skipped = SkippedOf(*input);
  std::string text =
      fmt::format("{}: no tensor can be processed", options.input);
  // Names a single skipped tensor, but only counts several.
  if (skipped.size() == 1) {
    text += fmt::format(": {}: {}", skipped[0].name, skipped[0].reason);
  } else if (!skipped.empty()) {
    text += "\n" + SkippedText(skipped, skipped.size(), options.verbose);
    text.pop_back();
  }
  return absl::InvalidArgumentError(text);
}

std::vector<const InputTensor*> Eligible(const TensorInput& input) {
  std::vector<const InputTensor*> list;
  for (const InputTensor& t : input.tensors()) {
    if (t.skip.reason.empty()) list.push_back(&t);
  }
  return list;
}

uint64_t BytesOf(const std::vector<const InputTensor*>& tensors) {
  uint64_t total = 0;
  for (const InputTensor* t : tensors) total += t->size;
  return total;
}

Report ReportOf(const char* command, const Options& options,
                const TensorInput& input) {
  Report report;
  report.command = command;
  report.server = options.server;
  report.input = options.input;
  report.skipped = SkippedOf(input);
  return report;
}

Record RecordOf(const InputTensor& tensor) {
  Record r;
  r.name = tensor.name;
  r.dtype = Name(tensor.desc.dtype);
  r.shape = tensor.desc.shape;
  r.bytes_in = tensor.size;
  return r;
}

void Credit(const Result& result, Record* record) {
  record->transports.insert(result.transport());
  record->device = result.device();
  record->request_id = result.request_id();
  record->saw_nan |= result.saw_nan();
  record->saw_inf |= result.saw_inf();
  record->replaced_globals += result.replaced_globals();
}

int ForEachTensor(
    const Options& options, const TensorInput& input, Report* report,
    const std::function<absl::Status(const TensorCalls&, Record*)>& work) {
  const auto client = Connect(options);
  if (!client.ok()) return FailToConnect(options, client.status());
  const auto tensors = Eligible(input);
  Progress progress(BytesOf(tensors));
  const auto pieces = PiecesOf(**client, options, &progress);
  if (!pieces.ok()) {
    return Fail(options, CodeOf(pieces.status()), pieces.status());
  }
  for (const InputTensor* t : tensors) {
    Record r = RecordOf(*t);
    progress.Name(r.name);
    r.error = work({**client, options, *t, *pieces}, &r);
    if (const auto s = input.read_error(); !s.ok()) {
      return Fail(options, kBadInput, s);
    }
    report->tensors.push_back(std::move(r));
    if (CodeOf(report->tensors.back().error) == kUnreachable) break;
  }
  return kOk;
}

std::vector<CopyRow> CopiesOf(const QuantizedTensor& q) {
  std::vector<CopyRow> rows;
  for (const Usage usage : {Usage::kRowwise, Usage::kColumnwise}) {
    const auto copy = usage == Usage::kRowwise ? q.rowwise() : q.columnwise();
    if (!copy) continue;
    CopyRow row;
    row.name = std::string(Name(usage));
    row.amax.assign(copy->amax.begin(), copy->amax.end());
    row.statistics = q.statistics(usage);
    rows.push_back(std::move(row));
  }
  return rows;
}

absl::StatusOr<OutputFile> OpenOutput(const Options& options,
                                      std::optional<FileIdentity> source) {
  struct stat out = {};
  struct stat file = {};
  // Whether the output is standard output under another name, such as
  // /dev/stdout. Data and text written through two descriptors would overwrite
  // each other.
  const bool same = fstat(STDOUT_FILENO, &out) == 0 &&
                    stat(options.output.c_str(), &file) == 0 &&
                    out.st_dev == file.st_dev && out.st_ino == file.st_ino &&
                    !S_ISCHR(out.st_mode);
  if (options.output != "-" && !same) {
    return OutputFile::Create(options.output, source);
  }
  const int data = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (data < 0) {
    return absl::ErrnoToStatus(errno, "cannot write to standard output");
  }
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return OutputFile::ToStream(data, "standard output", source);
}

int Finish(const Options& options, Report* report,
           const std::function<absl::Status()>& commit) {
  if (options.transport) RefuseOtherWays(*options.transport, report);
  const std::vector<Record>& all = report->tensors;
  const auto first = std::ranges::find_if(all, Failed);
  const auto failed = std::ranges::count_if(all, Failed);
  if (commit && failed > 0) {
    report->notes.push_back(
        fmt::format("{} was not written, because {} of {} tensors failed; "
                    "select others with --tensor",
                    options.output, failed, all.size()));
  } else if (commit) {
    if (auto s = commit(); !s.ok()) return Fail(options, kCannotWrite, s);
    report->output = options.output == "-" ? "standard output" : options.output;
  }
  report->seconds = report->timer.seconds();
  int code = kOk;
  if (first != all.end()) {
    code = std::ranges::all_of(all, Failed) ? CodeOf(first->error) : kPartly;
    Explain(options, code, first->error);
  }
  options.json ? PrintJson(*report, code)
               : PrintTable(*report, options.verbose);
  return code;
}

}  // namespace quantd::quantctl
