// PEM files with certificates and keys. They are read and checked before
// anything is served or sent with them, so that a mistake is reported in words
// at the start and not as a failed handshake later.
//
// Errors say what is wrong and what to do, and begin with `what`: the flag or
// field that named the file, and its path. They never contain file contents.
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

// Facts about the first certificate, which is the one that is presented.
struct CertificateFacts {
  std::string subject;  // "CN = quantd"
  absl::Time expires;
};

// FAILED_PRECONDITION unless both are PEM, every certificate of the chain is
// valid at `now`, and the key, which must not be encrypted, belongs to the
// first certificate.
absl::StatusOr<CertificateFacts> CheckIdentity(
    std::string_view certificate_what, const std::string& certificate,
    std::string_view key_what, const std::string& key, absl::Time now);

// FAILED_PRECONDITION unless `pem` holds certificates and at least one is valid
// at `now`.
absl::Status CheckAuthorities(std::string_view what, const std::string& pem,
                              absl::Time now);

}  // namespace quantd::security

#endif  // QUANTD_PROTO_NET_PEM_H_
