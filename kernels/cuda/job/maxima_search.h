// Finds the maxima of a job's input before the job runs, in the job's memory.
// An amax that is reduced over several jobs needs this.
#ifndef QUANTD_KERNELS_CUDA_JOB_MAXIMA_SEARCH_H_
#define QUANTD_KERNELS_CUDA_JOB_MAXIMA_SEARCH_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/compute.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/findings.h"
#include "kernels/cuda/job/job_kernels.h"
#include "kernels/cuda/job/staging.h"
#include "kernels/cuda/queue.h"
#include "kernels/device/backend.h"
#include "kernels/device/recipe.h"
#include "kernels/plan/shards.h"
#include "quantd/plan.h"

namespace quantd::cuda {

// Must outlive the work that Run queues on the slot's stream.
class MaximaSearch {
 public:
  // `maxima`: MaximaPlan of `plan`.
  MaximaSearch(std::shared_ptr<const Plan> plan, Plan maxima,
               const Device& device)
      : plan_(std::move(plan)),
        maxima_(std::move(maxima)),
        kernels_(maxima_, device, /*gaps=*/true) {}
  MaximaSearch(const MaximaSearch&) = delete;

  absl::Status Take(Device& device) { return kernels_.Take(device); }

  // Searches the input, which is on the device or whose copy is queued on the
  // slot's stream. Waits for the maxima. Writes them to the front of the
  // output's block, which the job overwrites later.
  absl::Status Run(Staging& staging, JobMemory memory, const Slot& slot,
                   const Queue& queue, std::atomic<uint64_t>* rht_launches,
                   FoundMaxima* found) {
    memory.payload.lent = nullptr;
    memory.findings = slot.findings;
    memory.findings_hold = false;
    memory.has_given_amaxes = false;
    if (auto s = kernels_.Queue(memory, queue, rht_launches); !s.ok()) return s;
    if (auto s = staging.CopyOutFront(maxima_.output_bytes(), slot.stream);
        !s.ok()) {
      return s;
    }
    const Recipe& recipe = kernels_.recipe();
    QUANTD_CUDA_RETURN(cudaMemcpyAsync(slot.findings_host, slot.findings,
                                       FindingsBytes(recipe),
                                       cudaMemcpyDeviceToHost, slot.stream),
                       "copy out");
    QUANTD_CUDA_RETURN(cudaStreamSynchronize(slot.stream), "compute");
    const uint32_t seen = slot.findings_host->found.seen;
    found->saw_nan = (seen & kSeenNan) != 0;
    found->saw_inf = (seen & kSeenInf) != 0;
    found->amax = ReadMaxima(*plan_, maxima_, staging.out_block());
    return CheckFinite(recipe, found->saw_nan, found->saw_inf);
  }

 private:
  const std::shared_ptr<const Plan> plan_;
  const Plan maxima_;
  Kernels kernels_;
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_JOB_MAXIMA_SEARCH_H_
