// How many files and connections the process may have open.
#ifndef QUANTD_SERVER_NET_DESCRIPTOR_LIMIT_H_
#define QUANTD_SERVER_NET_DESCRIPTOR_LIMIT_H_

#include <cstdint>

namespace quantd {

// Raises the soft limit to the hard one, since what a shell or a service
// manager gives by default is fewer than the connections that a server can
// have. Returns what is allowed from now on; 0: not known.
uint64_t RaiseDescriptorLimit();

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_DESCRIPTOR_LIMIT_H_
