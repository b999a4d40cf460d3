// Credentials that the listening port asks for: TLS, a client certificate, a
// token. They are read from files, and read again when these change. Invalid
// new files are logged, and the previous credentials stay in use.
//
// gRPC's own file watcher is not used: given a key and a certificate that do
// not match it drops both, and refuses every handshake.
//
// Threads: files are read again on a thread of its own; handshakes and calls
// use the current credentials.
#ifndef QUANTD_SERVER_NET_CREDENTIALS_H_
#define QUANTD_SERVER_NET_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_context.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/calls/failure.h"
#include "server/config/options.h"
#include "server/gate/caller.h"
#include "server/gate/steady_time.h"
#include "server/net/tokens.h"

namespace quantd {

// The contents of TlsFiles, checked.
struct TlsIdentity {
  std::string certificate;  // PEM, the server's first
  std::string key;
  std::string client_ca;  // empty: clients need no certificate
  std::string subject;
  absl::Time expires;

  // FAILED_PRECONDITION, with a message for the operator.
  static absl::StatusOr<TlsIdentity> Load(const TlsFiles& files);
  bool operator==(const TlsIdentity&) const = default;
};

// Why a call's token is refused.
enum class TokenFault { kMissing, kUnknown, kForbidden };

// The caller, or why the call must be refused.
struct Verdict {
  std::shared_ptr<const Caller> caller;  // null: the caller has no identity
  std::optional<Failure> failure;
};

// Must outlive the server that uses it.
class ServerCredentials {
 public:
  // INVALID_ARGUMENT, with a message for the operator, if a file is invalid.
  static absl::StatusOr<std::unique_ptr<ServerCredentials>> Load(
      const ServerOptions& options);
  ~ServerCredentials();

  // Stays owned by this object.
  std::shared_ptr<grpc::ServerCredentials> ForPort();

  // Identifies the caller of a call. With a token file every method needs a
  // token except health (grpc.health.v1), since orchestrators that probe the
  // server have none. A caller without a token is identified by its
  // certificate, if any.
  //
  // gRPC's own hook for this copies all metadata, and aborts on some
  // (CVE-2023-1428).
  Verdict Judge(std::string_view path, const grpc::ServerContext& context,
                std::string_view peer);

  // Failure of a stream whose caller may not use the method that it carries.
  Failure Forbid(wire::Method method, const Caller& caller,
                 std::string_view peer);

  // Reads the files again now, whether or not they changed.
  void Reload();

  // "plain", "tls" or "mtls", and the number of tokens, for the log.
  std::string transport() const;
  size_t tokens() const;
  // Number of calls refused for that fault.
  uint64_t refused(TokenFault fault) const {
    return refused_[static_cast<size_t>(fault)];
  }

 private:
  friend class PortCredentials;
  explicit ServerCredentials(const ServerOptions& options);
  Failure Refuse(TokenFault fault, std::string_view path, std::string_view who,
                 std::string_view peer);
  // Files that are only valid together.
  struct Source {
    std::vector<std::string> paths;
    // Reads the files and puts them into use.
    absl::Status (ServerCredentials::*read)();
    const char* kept;       // logged if the files are invalid
    std::string last = "";  // signature of the files at the last look
    std::string told = "";  // signature when they were last read; empty: never
  };
  // Polls: secrets are mounted into containers by swapping links and
  // directories, which notification easily misses.
  void Watch(absl::Duration interval);
  absl::Status ReadTls();
  absl::Status ReadTokens();
  // Null if TLS or tokens are not used.
  std::shared_ptr<const TlsIdentity> tls() const { return Get(tls_); }
  std::shared_ptr<const TokenHashes> token_hashes() const {
    return Get(tokens_);
  }
  template <typename T>
  std::shared_ptr<const T> Get(const std::shared_ptr<const T>& from) const {
    absl::MutexLock lock(&mutex_);
    return from;
  }

  const TlsFiles files_;
  const std::string token_file_;
  std::vector<Source> sources_;  // used by the thread only
  mutable absl::Mutex mutex_;    // guards the next four
  std::shared_ptr<const TlsIdentity> tls_;
  std::shared_ptr<const TokenHashes> tokens_;
  bool stopping_ = false;
  bool reload_ = false;
  SteadyCondVar wanted_;
  // gRPC uses it at each handshake without owning it.
  std::shared_ptr<grpc::ServerCredentials> port_;
  std::array<std::atomic<uint64_t>, 3> refused_ = {};  // by TokenFault
  std::thread thread_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_CREDENTIALS_H_
