// Closing what strangers have handed in: it may take as long as they like. A
// TCP socket lingers, a file of FUSE or NFS asks its server, and what still
// lies unread in a socket goes with it.
//
// Threads: everything here may be used from any thread, and never waits.
#ifndef QUANTD_SERVER_MEMORY_CLOSING_H_
#define QUANTD_SERVER_MEMORY_CLOSING_H_

namespace quantd {

// Closes `fd` on a detached thread.
void CloseApart(int fd);
// Whether so many wait to be closed that no more should be taken.
bool ClosingIsBehind();

}  // namespace quantd

#endif  // QUANTD_SERVER_MEMORY_CLOSING_H_
