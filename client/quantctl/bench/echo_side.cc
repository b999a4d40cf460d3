#include "client/quantctl/bench/echo_side.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "client/quantctl/echo/echo_server.h"
#include "fmt/format.h"
#include "proto/net/address.h"

namespace quantd::quantctl {
namespace {

absl::Status NoCeiling(std::string_view why) {
  return absl::InvalidArgumentError(fmt::format("--echo: {}", why));
}

absl::Status Check(const std::string& echo, const Options& o) {
  const Credentials& c = o.credentials;
  if (o.server == "local" || o.server.starts_with("local:")) {
    return NoCeiling(
        "with --server local nothing is sent; name a server with --server");
  }
  if (!o.memory_socket.empty()) {
    return NoCeiling(
        "what lies in shared memory is not sent; do without --memory-socket "
        "(and QUANTD_MEMORY_SOCKET)");
  }
  if (c.tls || !c.ca_file.empty() || !c.certificate_file.empty()) {
    return NoCeiling(
        "an echo does not encrypt, so it is no ceiling for a server that does; "
        "measure one without TLS");
  }
  if (echo == "self" && !security::IsLoopback(o.server)) {
    return NoCeiling(fmt::format(
        "self is on this machine, and {} is not; run 'quantctl echo-server "
        "--listen HOST:50152' there, and name that",
        o.server));
  }
  return {};
}

}  // namespace

absl::StatusOr<std::unique_ptr<EchoSide>> EchoSide::Create(
    const std::string& echo, const Options& options, int connections) {
  if (auto s = Check(echo, options); !s.ok()) return s;
  std::unique_ptr<EchoSide> side(new EchoSide);
  std::string address = echo;
  if (echo == "self") {
    // As the server is reached; by what leaves no file.
    auto process = EchoProcess::Start(
        options.server.starts_with("unix")
            ? fmt::format("unix-abstract:quantctl-echo-{}", getpid())
            : "127.0.0.1:0");
    if (!process.ok()) return process.status();
    side->process_ = *std::move(process);
    address = side->process_->address();
  }
  auto client =
      EchoClient::Create(address, connections, CallOf(options).deadline);
  if (!client.ok()) return client.status();
  side->client_ = *std::move(client);
  return side;
}

std::vector<size_t> EchoSide::PiecesFor(uint64_t bytes, uint64_t reply_bytes) {
  std::vector<size_t> pieces;
  // Larger ones an echo does not take, unless it is told to.
  if (std::max(bytes, reply_bytes) <= EchoOptions().max_bytes) {
    pieces.push_back(0);
  }
  for (const size_t piece : {size_t{1} << 20, size_t{4} << 20}) {
    if (bytes > piece) pieces.push_back(piece);
  }
  return pieces;
}

absl::Status EchoSide::FirstCall(absl::Span<const std::byte> input,
                                 uint64_t reply_bytes) {
  const auto some = input.subspan(0, std::min<size_t>(input.size(), 1 << 20));
  std::vector<std::byte> output(std::min<uint64_t>(some.size(), reply_bytes));
  const auto s = client_->Exchange(some, absl::MakeSpan(output), 0);
  if (!s.ok()) return s;
  if (!std::equal(output.begin(), output.end(), some.begin())) {
    return absl::InternalError(
        "what the echo answered is not what was sent: name a quantctl "
        "echo-server with --echo");
  }
  return {};
}

std::vector<Contender> EchoSide::ContendersFor(
    absl::Span<const std::byte> input, uint64_t reply_bytes) {
  std::vector<Contender> contenders;
  for (const size_t piece : PiecesFor(input.size(), reply_bytes)) {
    contenders.push_back({[this, input, reply_bytes, piece] {
      return Call(input, reply_bytes, piece);
    }});
  }
  return contenders;
}

absl::Status EchoSide::Call(absl::Span<const std::byte> input,
                            uint64_t reply_bytes, size_t piece_bytes) {
  std::vector<std::byte> output;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      output = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  if (output.size() != reply_bytes) output.resize(reply_bytes);
  const auto s = client_->Exchange(input, absl::MakeSpan(output), piece_bytes);
  const std::lock_guard lock(mutex_);
  spare_.push_back(std::move(output));
  return s;
}

}  // namespace quantd::quantctl
