// quantd --probe: is the server that runs with these options serving? For a
// container's HEALTHCHECK and an orchestrator's exec probe.
#ifndef QUANTD_SERVER_OBSERVE_PROBE_H_
#define QUANTD_SERVER_OBSERVE_PROBE_H_

#include <string>

#include "server/config/options.h"

namespace quantd {

struct ProbeResult {
  int exit_code = 0;    // 0: serving, 1: not, or not there, 2: bad options
  std::string message;  // one line
};

// Asks grpc.health.v1 at the address of options.listen, or of
// options.port_file where the port is a free one. With TLS the connection is
// made as a client's, but whose certificate answers is not judged: nothing is
// sent that would be worth stealing, and a name or date that clients refuse is
// not healed by a restart. Blocks for probe.timeout at most.
ProbeResult Probe(const ServerOptions& options, const ProbeOptions& probe);

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_PROBE_H_
