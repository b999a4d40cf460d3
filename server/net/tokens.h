// The bearer tokens that a server accepts, known only by their SHA-256.
//
// The file has one token on a line: 64 hexadecimal digits, optionally followed
// by a name, as sha256sum prints them. Empty lines and lines that begin with #
// are ignored. Rights may follow the name:
//
//      <64 digits>  training  methods=Quantize,GetServerInfo priority=high
//
// Tokens with the same name are one caller, with one share of memory, so a
// token can be replaced by another.
#ifndef QUANTD_SERVER_NET_TOKENS_H_
#define QUANTD_SERVER_NET_TOKENS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/gate/caller.h"

namespace quantd {

// Immutable.
class TokenHashes {
 public:
  // Reads --token-file. FAILED_PRECONDITION, with a message for the operator,
  // if the file cannot be read, is malformed, or names no token or an empty
  // one.
  static absl::StatusOr<TokenHashes> Load(const std::string& path);

  // The caller with that token, owned by this, or null. The time taken does not
  // reveal how close a wrong token is.
  const Caller* Find(std::string_view token) const;
  size_t size() const { return callers_.size(); }
  bool operator==(const TokenHashes&) const = default;

 private:
  std::vector<std::pair<std::string, Caller>> callers_;  // by SHA-256
};

// The token of "Bearer TOKEN"; empty for any other text.
std::string_view BearerToken(std::string_view authorization);

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_TOKENS_H_
