// How a Client proves its identity and checks the server's.
#ifndef QUANTD_CREDENTIALS_H_
#define QUANTD_CREDENTIALS_H_

#include <string>

namespace quantd {

// Files are paths of PEM files, read once, when the client is made; empty:
// none. Client::Create refuses, with INVALID_ARGUMENT that names the field,
// files that cannot be read, have expired or do not belong together, and a
// token that would travel in plain text to another machine.
struct Credentials {
  // TLS. Naming any of the files below implies it.
  bool tls = false;
  // Authorities that sign servers; empty: those that the system trusts.
  std::string ca_file;
  // The client's certificate, for a server that asks for one; both or neither.
  std::string certificate_file;
  std::string key_file;
  // The name that the server's certificate must have; empty: the one dialled.
  std::string server_name;

  // A bearer token, itself or in a file of one line; not both.
  std::string token;
  std::string token_file;
};

}  // namespace quantd

#endif  // QUANTD_CREDENTIALS_H_
