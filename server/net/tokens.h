// The bearer tokens that a server takes, known by their SHA-256 alone.
//
// The file has one token on a line: 64 hexadecimal digits and, if one likes, a
// name behind them, as sha256sum prints them. Empty lines and lines that begin
// with # are for the reader. Behind the name there may be what the token may:
//
//   <64 digits>  training  methods=Quantize,GetServerInfo priority=high
//   <64 digits>  batch     bytes-per-second=200MiB calls-in-flight=8
//
// Tokens of one name are one caller: they share their part of memory and their
// quotas, so that a token can be replaced by another.
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
  // Reads --token-file. FAILED_PRECONDITION, with words for the operator, for
  // a file that cannot be read, is malformed, names no token or an empty one.
  static absl::StatusOr<TokenHashes> Load(const std::string& path);

  // The caller with that token, owned by this, or null. The time that it takes
  // does not tell how near a wrong token comes.
  const Caller* Find(std::string_view token) const;
  size_t size() const { return callers_.size(); }
  bool operator==(const TokenHashes&) const = default;

 private:
  std::vector<std::pair<std::string, Caller>> callers_;  // by SHA-256
};

// The token of "Bearer TOKEN"; empty: it is none.
std::string_view BearerToken(std::string_view authorization);

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_TOKENS_H_
