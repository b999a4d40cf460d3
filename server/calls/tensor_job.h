// The job of a tensor call: where it takes its input from, what it works in,
// and what of its output is left to be sent.
#ifndef QUANTD_SERVER_CALLS_TENSOR_JOB_H_
#define QUANTD_SERVER_CALLS_TENSOR_JOB_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/backend.h"
#include "proto/wire.h"
#include "server/memory/places.h"

namespace quantd {

// What a device's pools must have for it. `in_place`: it works on lent memory
// where it lies.
size_t PayloadNeed(const wire::Request& request, const Places& places,
                   bool in_place);

// Up to here a copy of an output costs less than lending its block does.
inline constexpr size_t kCopiedOutput = 16 << 10;

// A reply's payload.
struct JobOutput {
  Block block;                  // it begins here
  std::vector<std::byte> rest;  // or is this, of at most kCopiedOutput
  size_t size = 0;

  const std::byte* data() const {
    return rest.empty() ? block.data() : rest.data();
  }
};

class TensorJob {
 public:
  // Both must outlive it.
  TensorJob(const wire::Request& request, const Places& places)
      : request_(request), places_(places) {}

  // Takes or borrows the input; the message is not looked at any more.
  // `pieces` is for Job::CountPieces. The errors are the backend's.
  absl::Status Begin(Backend& backend, wire::Slices message,
                     std::atomic<uint64_t>* pieces);
  absl::StatusOr<JobReport> Run() { return job_->Run(); }
  // Once, and the end of the job.
  JobOutput Finish();

 private:
  absl::StatusOr<LentMemory> Lend(const Backend& backend);

  const wire::Request& request_;
  const Places& places_;
  std::unique_ptr<Job> job_;
  // What travels of an output that is lent: a little of it, or much.
  std::vector<std::byte> rest_;
  Block large_rest_;
  bool lends_outputs_ = false;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_TENSOR_JOB_H_
