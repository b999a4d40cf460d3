// What a completion queue hands back, for everything that waits on ours.
#ifndef QUANTD_SERVER_NET_COMPLETION_TAG_H_
#define QUANTD_SERVER_NET_COMPLETION_TAG_H_

#include <functional>

namespace quantd {

// Lives until it is delivered. Delivered on the queue's own thread.
struct CompletionTag {
  std::function<void(bool ok)> deliver;
};

// Set on a thread of a queue that was so long at one tag that another thread
// has taken its place.
inline thread_local bool thread_is_relieved = false;

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_COMPLETION_TAG_H_
