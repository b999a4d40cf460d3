// Chooses the server for a command: the flags, and the defaults if none is
// named.
#ifndef QUANTD_CLIENT_QUANTCTL_SERVER_CHOICE_H_
#define QUANTD_CLIENT_QUANTCTL_SERVER_CHOICE_H_

#include <CLI/CLI.hpp>
#include <cstdint>

#include "client/quantctl/commands.h"

namespace quantd::quantctl {

void AddServer(CLI::App* app, Options* o);
// Flags of TLS and the token. Part of AddServer.
void AddCredentials(CLI::App* app, Options* o);
void AddDeadline(CLI::App* app, Options* o);

// Whether nothing listens at that port of 127.0.0.1. False if unknown.
bool Refuses(uint16_t port);

// Chooses for a command without a named server: "local" if --transport says so,
// or, with a message on stderr, if the default address refuses connections and
// any transport will do.
void SettleServer(Options* o);

// Fills in what flags leave to the environment and to defaults: the token, and
// missing ports. INVALID_ARGUMENT for a variable that has been renamed.
absl::Status SettleConnection(Options* o);

// INVALID_ARGUMENT if the server cannot be reached by the named transport.
absl::Status CheckTransport(const Options& o);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_SERVER_CHOICE_H_
