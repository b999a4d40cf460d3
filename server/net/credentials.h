// What the listening port asks of those who connect: TLS, a client
// certificate, a token; all of it read from files and read again when they
// change. What cannot be read then, or is no good, is logged, and what was
// loaded before goes on serving.
//
// gRPC's own file watcher is not used: given a key and a certificate that do
// not match it ends up with none, and refuses every handshake.
//
// Threads: files are read again on a thread of its own; handshakes and calls
// take what is current.
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

  // FAILED_PRECONDITION, with words for the operator.
  static absl::StatusOr<TlsIdentity> Load(const TlsFiles& files);
  bool operator==(const TlsIdentity&) const = default;
};

// What is wrong with the token of a call that needs one.
enum class TokenFault { kMissing, kUnknown, kForbidden };

// The caller, or why the call must be turned away.
struct Verdict {
  std::shared_ptr<const Caller> caller;  // null: nobody is known by name
  std::optional<Failure> failure;
};

// Must outlive the server that uses it.
class ServerCredentials {
 public:
  // INVALID_ARGUMENT, with words for the operator, for files that are no good.
  static absl::StatusOr<std::unique_ptr<ServerCredentials>> Load(
      const ServerOptions& options);
  ~ServerCredentials();

  // It stays owned by this.
  std::shared_ptr<grpc::ServerCredentials> ForPort();

  // Every method needs a token if there is a token file, but for health
  // (grpc.health.v1), by which orchestrators look at a server that they have no
  // token for. A caller without one is known by a certificate, if there is one.
  //
  // gRPC's own hook for this writes out all metadata for it, and aborts at some
  // (CVE-2023-1428).
  Verdict Judge(std::string_view path, const grpc::ServerContext& context,
                std::string_view peer);

  // Why the caller of a stream may not have what it carries.
  Failure Forbid(wire::Method method, const Caller& caller,
                 std::string_view peer);

  // Reads the files again now, whether they changed or not.
  void Reload();

  // "plain", "tls" or "mtls", and how many tokens are known; for the log.
  std::string transport() const;
  size_t tokens() const;
  // Calls that were refused for that.
  uint64_t refused(TokenFault fault) const {
    return refused_[static_cast<size_t>(fault)];
  }

 private:
  friend class PortCredentials;
  explicit ServerCredentials(const ServerOptions& options);
  Failure Refuse(TokenFault fault, std::string_view path, std::string_view who,
                 std::string_view peer);
  // Files that mean something only together.
  struct Source {
    std::vector<std::string> paths;
    // What is new takes effect.
    absl::Status (ServerCredentials::*read)();
    const char* kept;       // logged where it is no good
    std::string last = "";  // how they looked at the last look
    std::string told = "";  // and when they were read; empty: never
  };
  // Polls: what mounts secrets into containers swaps links and directories,
  // which is easy to miss by notification.
  void Watch(absl::Duration interval);
  absl::Status ReadTls();
  absl::Status ReadTokens();
  // Null: not used.
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
  std::vector<Source> sources_;  // the thread's alone
  mutable absl::Mutex mutex_;    // of the next four
  std::shared_ptr<const TlsIdentity> tls_;
  std::shared_ptr<const TokenHashes> tokens_;
  bool stopping_ = false;
  bool reload_ = false;
  SteadyCondVar wanted_;
  // gRPC comes back to it at each handshake, but does not keep it.
  std::shared_ptr<grpc::ServerCredentials> port_;
  std::array<std::atomic<uint64_t>, 3> refused_ = {};  // by TokenFault
  std::thread thread_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_CREDENTIALS_H_
