// quantd --probe: asks whether the server running with these options is
// serving. For a container's HEALTHCHECK and an orchestrator's exec probe.
#ifndef QUANTD_SERVER_OBSERVE_PROBE_H_
#define QUANTD_SERVER_OBSERVE_PROBE_H_

#include <string>

#include "server/config/options.h"

namespace quantd {

struct ProbeResult {
  int exit_code = 0;  // 0: serving, 1: not serving or not there, 2: bad options
  std::string message;  // one line
};

// Asks grpc.health.v1 at options.listen, or at the address in options.port_file
// if the port is a free one. With TLS the server's certificate is not verified:
// the probe sends nothing secret, and a restart does not mend a name or date
// that clients refuse. Blocks for probe.timeout at most.
ProbeResult Probe(const ServerOptions& options, const ProbeOptions& probe);

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_PROBE_H_
