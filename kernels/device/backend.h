// The interface of a device. A Backend makes a Job of a Plan, and a Job
// computes output bytes from input bytes. All devices give the same bytes. The
// implementations are kernels/cpu/cpu_backend.h and
// kernels/cuda/cuda_backend.h.
#ifndef QUANTD_KERNELS_DEVICE_BACKEND_H_
#define QUANTD_KERNELS_DEVICE_BACKEND_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/device/memory.h"
#include "kernels/plan/shards.h"
#include "quantd/error_statistics.h"
#include "quantd/plan.h"

namespace quantd {

class EventMapping;

// The duration of each stage of a run, in nanoseconds; 0 if the device has no
// such stage or the stage did nothing. GPUs measure with events on their
// streams, the CPU with the clock.
struct JobTimes {
  int64_t copy_in_ns = 0;
  int64_t compute_ns = 0;
  int64_t copy_out_ns = 0;
};

// Results of a run other than its output bytes.
struct JobReport {
  bool saw_nan = false;  // in the input
  bool saw_inf = false;
  // The number of groups, mostly groups of zeros, whose global scale was
  // replaced by 1, because with their own scale the profile's library would
  // write NaN.
  int64_t replaced_globals = 0;
  // Statistics of the copies, if the plan's options ask for them.
  std::optional<ErrorStatistics> rowwise = {};
  std::optional<ErrorStatistics> columnwise = {};
  JobTimes times = {};
};

// The maxima of an input, for an amax that is reduced over several inputs.
struct FoundMaxima {
  CopyAmax amax;  // before the factor of an estimate is applied
  bool saw_nan = false;
  bool saw_inf = false;
};

// The caller's memory, which a job uses instead of its own blocks: directly if
// the device can, otherwise by copies. It must stay valid until the job is
// destroyed. Outputs are aligned for their elements and do not overlap each
// other. An input may have any address. If an input is written to during the
// job, only the outputs are undefined.
//
// A GPU also accepts its own memory; all other work on that memory must have
// ended.
struct LentMemory {
  // One span for each of plan.inputs(), of its size. Empty: the job has
  // staging.
  std::vector<absl::Span<const std::byte>> inputs = {};
  // One span for each of plan.outputs(), of its size. Empty: TakeOutput returns
  // the outputs.
  std::vector<absl::Span<std::byte>> outputs = {};
  // An event of the backend's device, or null. A job that succeeds records it
  // once its outputs are in place.
  const EventMapping* record = nullptr;
};

// The execution of one plan on one device. Not thread-safe, but may move
// between threads. The destructor releases all resources in every state of the
// job.
//
// Order of calls: optionally Fed, as bytes of the staging become final; if the
// amax is reduced over several jobs, FindMaxima and then Settle, once each; Run
// once; TakeOutput once. A job may be destroyed at any point.
class Job {
 public:
  virtual ~Job() = default;

  // Staging of plan.input_bytes() bytes, 256-byte aligned, valid until Run
  // returns; empty if inputs were lent. The caller writes the input here and
  // then calls Fed. A server can thus copy from the network directly into
  // memory that the device reads.
  virtual absl::Span<std::byte> staging() = 0;

  // Tells the job that bytes [0, n) of the staging are final. n never
  // decreases. The device may start to copy them. Optional: Run implies
  // Fed(plan.input_bytes()).
  virtual void Fed(size_t n) = 0;

  // Finds the maxima of the input for a plan that reduces
  // (kernels/plan/shards.h). The whole staging must be final. Only for a job
  // without lent memory. Blocks. Errors are those of Run.
  virtual absl::StatusOr<FoundMaxima> FindMaxima() = 0;
  // Replaces the job's plan by `plan`, which SettledPlan made.
  virtual absl::Status Settle(std::shared_ptr<const Plan> plan) = 0;

  // Makes FindMaxima and Run increment `*pieces`, which must outlive the job,
  // whenever a piece of the work is done, which tells a slow job from a hanging
  // one. A device need not implement this. Call it before FindMaxima and Run.
  virtual void CountPieces(std::atomic<uint64_t>* /*pieces*/) {}

  // Computes every output. Blocks. INVALID_ARGUMENT (field "payload") if the
  // plan has NonFinite::kReject and the input holds NaN or Inf. Any other error
  // is a fault of the device.
  virtual absl::StatusOr<JobReport> Run() = 0;

  // Returns the block of plan.output_bytes() bytes with plan.outputs(); empty
  // if the outputs were lent. The block stays valid after the job is destroyed.
  virtual Block TakeOutput() = 0;
};

struct BackendInfo {
  std::string name;         // "cpu:0", "cuda:1"
  std::string kind;         // "cpu", "cuda", "memcpy"
  std::string description;  // "AVX2, 2 threads", "NVIDIA H200, sm_90"
  int slots = 1;            // most jobs that may be alive at once
  // The number of further jobs that may be alive while they wait for their
  // input. Each takes a slot before it runs.
  int feeding = 0;
  size_t memory_limit = 0;  // most bytes of payload memory in its pools
  bool borrows = false;     // accepts LentMemory
  bool computes = true;     // false: a fake, for benchmarks and tests
};

// Counters that only grow, and the device's state. The values may be from
// slightly different times.
struct BackendStats {
  bool healthy = true;  // false: the device has faulted; all later jobs fail
  uint64_t jobs = 0;
  uint64_t rht_cache_hits = 0;    // lookups of a (mask, dimension, dtype) that
                                  // was cached
  uint64_t rht_cache_misses = 0;  // ... that was not
  uint64_t rht_launches = 0;      // kernels that read cached signs
  size_t pool_high_water = 0;
};

// One device. Thread-safe. Must outlive its jobs, but not their output blocks.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendInfo& info() const = 0;
  virtual BackendStats stats() const = 0;

  // Begins a job, which keeps the plan alive. Never waits. RESOURCE_EXHAUSTED
  // if no slot or no memory of the pools is free, OutOfMemoryError if the
  // device itself has no memory (see out_of_memory.h), UNIMPLEMENTED for lent
  // memory if info().borrows is false.
  virtual absl::StatusOr<std::unique_ptr<Job>> Begin(
      std::shared_ptr<const Plan> plan, LentMemory lent) = 0;
  absl::StatusOr<std::unique_ptr<Job>> Begin(std::shared_ptr<const Plan> plan) {
    return Begin(std::move(plan), LentMemory());
  }

  // The most bytes that a job with `lent` takes from the device's pools; only
  // scratch if the device uses all lent memory in place.
  virtual size_t PoolBytes(const Plan& plan, const LentMemory& lent) const;
};

// Default number of jobs that may wait for their input at a time.
inline constexpr int kFeedingJobs = 32;

struct BackendOptions {
  size_t memory_limit = size_t{1} << 30;  // payload memory, inputs and outputs
  int slots = 0;                          // 0: the device's default
  int threads = 0;                        // CPU only; 0: one per core
  std::string name = {};                  // CPU only: name in place of "cpu:N"
  // CPU only: "auto", "baseline", "avx2" or "avx512". The environment
  // variable QUANTD_CPU_ISA overrides "auto".
  std::string isa = "auto";
};

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_BACKEND_H_
