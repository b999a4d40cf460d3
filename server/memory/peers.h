// The users whose processes may share memory with the server.
#ifndef QUANTD_SERVER_MEMORY_PEERS_H_
#define QUANTD_SERVER_MEMORY_PEERS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace quantd {

// Names or numbers; none: the server's own user. INVALID_ARGUMENT for a name
// that nobody has.
absl::StatusOr<std::vector<uid_t>> FindMemoryPeers(
    const std::vector<std::string>& users);

}  // namespace quantd

#endif  // QUANTD_SERVER_MEMORY_PEERS_H_
