// Lends the caller's memory to gRPC and tracks its release.
#ifndef QUANTD_CLIENT_NET_STREAM_PINS_H_
#define QUANTD_CLIENT_NET_STREAM_PINS_H_

#include <grpcpp/support/slice.h>

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>

#include "absl/types/span.h"

namespace quantd::client {

// Counts the slices of the caller's memory that gRPC still holds. It may hold a
// slice after the call has ended, while a write to the socket is unfinished.
// Thread-safe.
class Pins {
 public:
  static grpc::Slice Borrow(absl::Span<const std::byte> bytes,
                            const std::shared_ptr<Pins>& pins);
  // Waits until gRPC holds no slice. gRPC may notice a lost connection ten
  // seconds late, when only its backup poller does.
  void WaitUntilFree();

 private:
  static void Release(void* arg);

  std::mutex mutex_;
  std::condition_variable free_;
  int held_ = 0;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_STREAM_PINS_H_
