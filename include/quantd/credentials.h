// How a Client proves its identity and checks the server's identity.
#ifndef QUANTD_CREDENTIALS_H_
#define QUANTD_CREDENTIALS_H_

#include <string>

namespace quantd {

// TLS files and a token. Members that end in _file, except token_file, are
// paths of PEM files. All files are read once, when the client is made. Empty:
// no file. Client::Create fails with INVALID_ARGUMENT, naming the field, for
// files that cannot be read, have expired or do not belong together, and for a
// token that would be sent in plain text to another machine.
struct Credentials {
  // Uses TLS; implied by any of the files below.
  bool tls = false;
  // The authorities that sign servers' certificates. Empty: the system's
  // authorities.
  std::string ca_file;
  // The client's certificate and its key, for a server that asks for them. Set
  // both or neither.
  std::string certificate_file;
  std::string key_file;
  // The name that the server's certificate must have. Empty: the target's host.
  std::string server_name;

  // A bearer token, or the path of a file that holds it in one line. Set one or
  // neither.
  std::string token;
  std::string token_file;
};

}  // namespace quantd

#endif  // QUANTD_CREDENTIALS_H_
