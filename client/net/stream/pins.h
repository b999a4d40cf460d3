// Lends the caller's memory to gRPC, and knows when gRPC has let go of it.
#ifndef QUANTD_CLIENT_NET_STREAM_PINS_H_
#define QUANTD_CLIENT_NET_STREAM_PINS_H_

#include <grpcpp/support/slice.h>

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>

#include "absl/types/span.h"

namespace quantd::client {

// Counts the slices over the caller's memory that gRPC still holds. It can
// hold one after the call has ended, when bytes of it lie in a write to the
// socket that has not finished. Thread-safe.
class Pins {
 public:
  static grpc::Slice Borrow(absl::Span<const std::byte> bytes,
                            const std::shared_ptr<Pins>& pins);
  // Returns when the write ends or the connection is given up. gRPC may notice
  // the latter ten seconds late (its backup poller).
  void WaitUntilFree();

 private:
  static void Release(void* arg);

  std::mutex mutex_;
  std::condition_variable free_;
  int held_ = 0;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_STREAM_PINS_H_
