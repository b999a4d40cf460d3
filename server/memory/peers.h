// The users whose processes may share memory with the server.
#ifndef QUANTD_SERVER_MEMORY_PEERS_H_
#define QUANTD_SERVER_MEMORY_PEERS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace quantd {

// Whether a user namespace, by its /proc/PID/uid_map, has every user of the
// machine. Else those that it lacks are one user there, nobody.
bool KnowsAllUsers(const std::string& uid_map);

// Names or numbers; none: the server's own user. INVALID_ARGUMENT for a name
// that nobody has, and for nobody where that is more than one.
absl::StatusOr<std::vector<uid_t>> FindMemoryPeers(
    const std::vector<std::string>& users);

}  // namespace quantd

#endif  // QUANTD_SERVER_MEMORY_PEERS_H_
