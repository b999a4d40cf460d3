// Ids of calls: in every reply, trailer and log line of a call.
#ifndef QUANTD_SERVER_CALLS_REQUEST_IDS_H_
#define QUANTD_SERVER_CALLS_REQUEST_IDS_H_

#include <atomic>
#include <cstdint>
#include <random>
#include <string>

#include "fmt/format.h"

namespace quantd {

// Thread-safe.
class RequestIds {
 public:
  std::string Next() {
    return fmt::format("{}-{:06x}", prefix_, next_.fetch_add(1));
  }

 private:
  // Four bytes of chance, so that ids differ between runs and servers.
  const std::string prefix_ = fmt::format("{:08x}", std::random_device()());
  std::atomic<uint64_t> next_ = 0;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_REQUEST_IDS_H_
