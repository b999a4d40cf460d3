// Where a command works for which nobody has named a server.
#ifndef QUANTD_CLIENT_QUANTCTL_SERVER_CHOICE_H_
#define QUANTD_CLIENT_QUANTCTL_SERVER_CHOICE_H_

#include <cstdint>

#include "client/quantctl/commands.h"

namespace quantd::quantctl {

// Whether nothing listens at that port of 127.0.0.1. False where that cannot be
// known.
bool Refuses(uint16_t port);

// For a command for which no server is named: "local", and says so on stderr,
// where the default address refuses connections.
void SettleServer(Options* o);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_SERVER_CHOICE_H_
