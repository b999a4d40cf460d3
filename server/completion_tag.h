// What a completion queue hands back, for everything that waits on ours.
#ifndef QUANTD_SERVER_COMPLETION_TAG_H_
#define QUANTD_SERVER_COMPLETION_TAG_H_

#include <functional>

namespace quantd {

// Lives until it is delivered. Delivered on the queue's own thread.
struct CompletionTag {
  std::function<void(bool ok)> deliver;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_COMPLETION_TAG_H_
