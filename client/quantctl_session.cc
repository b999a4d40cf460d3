#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "client/quantctl.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

// Why a tensor is passed over that nobody asked for; not worth a line.
constexpr char kNotNamed[] = "not named";

// What to try where a connection came about and then failed; nullptr: it did
// not come about. gRPC has only words for the difference.
const char* TlsHint(const Credentials& credentials,
                    const absl::Status& status) {
  const std::string text = absl::AsciiStrToLower(status.message());
  const auto says = [&](const char* words) {
    return text.find(words) != std::string::npos;
  };
  const bool tls = credentials.tls || !credentials.ca_file.empty() ||
                   !credentials.certificate_file.empty();
  if (says("wrong version number")) {
    return "The server speaks plain text: leave out --tls and --tls-ca.";
  }
  if (says("certificate verify failed") || says("not in peer certificate")) {
    return "Its certificate is not trusted: name who signed it with --tls-ca, "
           "and the name it has with --tls-name.";
  }
  // What a server that breaks off a handshake looks like from here.
  if (!says("socket closed")) return nullptr;
  return tls ? "If the server wants a certificate, give one that it takes with "
               "--tls-cert and --tls-key."
             : "If the server speaks TLS, give --tls-ca or --tls.";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Connect(const Options& options) {
  ClientOptions client;
  client.deadline = CallOf(options).deadline;
  client.max_in_flight = 2;
  client.credentials = options.credentials;
  return Client::Create(options.server, client);
}

CallOptions CallOf(const Options& options) {
  CallOptions call;
  call.deadline = std::chrono::milliseconds(
      static_cast<int64_t>(std::ceil(options.deadline_seconds * 1e3)));
  return call;
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

void Explain(const Options& options, const absl::Status& status) {
  fmt::print(stderr, "quantctl: {}\n", std::string(status.message()));
  switch (status.code()) {
    case absl::StatusCode::kUnauthenticated:
      fmt::print(stderr,
                 "  Give the token with --token-file or QUANTCTL_TOKEN; the "
                 "server must have its SHA-256 in its --token-file.\n");
      break;
    case absl::StatusCode::kUnavailable:
      if (const char* hint = TlsHint(options.credentials, status)) {
        fmt::print(stderr, "  {}\n", hint);
        break;
      }
      fmt::print(stderr,
                 "  Start a server with 'quantd --listen {}', or name another "
                 "with --server or QUANTD_SERVER.\n",
                 options.server.substr(0, options.server.find(',')));
      break;
    case absl::StatusCode::kDeadlineExceeded:
      fmt::print(stderr, "  Give it more time with --deadline (now {} s).\n",
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
  Explain(options, status);
  if (options.json) PrintJsonError(status, code);
  return code;
}

absl::StatusOr<TensorInput> OpenInput(
    const Options& options,
    const std::function<absl::Status(const TensorDesc&)>& judge) {
  auto input = TensorInput::Open(options.input);
  if (!input.ok()) return input.status();
  const std::vector<std::string>& wanted = options.tensors;
  for (const std::string& name : wanted) {
    const bool there =
        std::any_of(input->tensors().begin(), input->tensors().end(),
                    [&](const InputTensor& t) { return t.name == name; });
    if (!there) {
      return absl::NotFoundError(
          fmt::format("{}: no tensor \"{}\"", options.input, name));
    }
  }
  const bool file_of_many = HasExtension(options.input, ".safetensors");
  for (InputTensor& t : input->tensors()) {
    t.desc.flatten_axis = t.desc.shape.size() == 1 ? -1 : options.flatten_axis;
    const bool named =
        std::find(wanted.begin(), wanted.end(), t.name) != wanted.end();
    if (t.skip.empty()) {
      if (const absl::Status s = judge(t.desc); !s.ok()) {
        t.skip = std::string(s.message());
      }
    }
    if (named && !t.skip.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: tensor \"{}\": {}", options.input, t.name, t.skip));
    }
    if (!wanted.empty() && !named && t.skip.empty()) {
      t.skip = kNotNamed;
    }
    // Norms and biases: tiny, and no format's users expect them changed.
    if (!named && file_of_many && t.skip.empty() && t.desc.shape.size() == 1) {
      t.skip = "a vector; name it with --tensor to take it all the same";
    }
  }
  const bool any = std::any_of(input->tensors().begin(), input->tensors().end(),
                               [](const auto& t) { return t.skip.empty(); });
  if (!any) {
    std::string text =
        fmt::format("{}: no tensor can be worked on", options.input);
    for (const InputTensor& t : input->tensors()) {
      text += fmt::format("\n  {}: {}", t.name, t.skip);
    }
    return absl::InvalidArgumentError(text);
  }
  return input;
}

std::vector<const InputTensor*> Eligible(const TensorInput& input) {
  std::vector<const InputTensor*> list;
  for (const InputTensor& t : input.tensors()) {
    if (t.skip.empty()) list.push_back(&t);
  }
  return list;
}

Report ReportOf(const char* command, const Options& options,
                const TensorInput& input) {
  Report report;
  report.command = command;
  report.server = options.server;
  report.input = options.input;
  for (const InputTensor& t : input.tensors()) {
    if (!t.skip.empty() && t.skip != kNotNamed) {
      report.skipped.push_back({t.name, t.skip});
    }
  }
  return report;
}

Record RecordOf(const InputTensor& tensor) {
  Record r;
  r.name = tensor.name;
  r.dtype = Name(tensor.desc.dtype);
  r.shape = tensor.desc.shape;
  r.bytes_in = tensor.bytes.size();
  return r;
}

void Credit(const Result& result, Record* record) {
  record->device = result.device();
  record->request_id = result.request_id();
  record->saw_nan |= result.saw_nan();
  record->saw_inf |= result.saw_inf();
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

int Finish(const Options& options, const Report& report) {
  const auto bad = [](const Record& r) { return !r.error.ok(); };
  const std::vector<Record>& all = report.tensors;
  const auto first = std::find_if(all.begin(), all.end(), bad);
  int code = kOk;
  if (first != all.end()) {
    code = std::all_of(all.begin(), all.end(), bad) ? CodeOf(first->error)
                                                    : kPartly;
    Explain(options, first->error);
  }
  options.json ? PrintJson(report, code) : PrintTable(report);
  return code;
}

}  // namespace quantd::quantctl
