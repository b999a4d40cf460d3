// Reading and checking of PEM files with certificates and keys. They are
// checked before use, so that a mistake is reported at the start with its
// reason, and not later as a failed handshake.
//
// Errors say what is wrong and how to correct it. They begin with `what`, which
// is the flag or field that names the file, and its path. They never contain
// file contents.
#ifndef QUANTD_PROTO_NET_PEM_H_
#define QUANTD_PROTO_NET_PEM_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace quantd::security {

// Reads a regular file of at most 1 MiB that is not empty.
absl::StatusOr<std::string> ReadSmallFile(std::string_view what,
                                          const std::string& path);

// Facts about the first certificate, which is presented to peers.
struct CertificateFacts {
  std::string subject;  // "CN = quantd"
  absl::Time expires;
};

// FAILED_PRECONDITION unless `certificate` and `key` are PEM, every certificate
// of the chain is valid at `now`, the key belongs to the first certificate, and
// the key is not encrypted.
absl::StatusOr<CertificateFacts> CheckIdentity(
    std::string_view certificate_what, const std::string& certificate,
    std::string_view key_what, const std::string& key, absl::Time now);

// FAILED_PRECONDITION unless `pem` holds certificates and at least one is valid
// at `now`.
absl::Status CheckAuthorities(std::string_view what, const std::string& pem,
                              absl::Time now);

}  // namespace quantd::security

#endif  // QUANTD_PROTO_NET_PEM_H_
