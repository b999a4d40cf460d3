// How a Client proves its identity and checks the server's.
#ifndef QUANTD_CREDENTIALS_H_
#define QUANTD_CREDENTIALS_H_

#include <string>

namespace quantd {

// TLS files and a token. Files are paths of PEM files, read once when the
// client is made; empty: no file. Client::Create fails with INVALID_ARGUMENT,
// naming the field, for files that cannot be read, have expired or do not
// belong together, and for a token that would be sent in plain text to another
// machine.
struct Credentials {
  // Uses TLS; implied by any of the files below.
  bool tls = false;
  // Authorities that sign servers' certificates; empty: those of the system.
  std::string ca_file;
  // The client's certificate, for a server that asks for one; both or neither.
  std::string certificate_file;
  std::string key_file;
  // The name that the server's certificate must have; empty: that of the
  // target.
  std::string server_name;

  // A bearer token, itself or in a file of one line; not both.
  std::string token;
  std::string token_file;
};

}  // namespace quantd

#endif  // QUANTD_CREDENTIALS_H_
