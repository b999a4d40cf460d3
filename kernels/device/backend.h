// The contract every device signs: a Backend turns a Plan into a Job, a Job
// turns fed bytes into output bytes, and the bytes are the same on all.
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

// How long the stages of a run took, in nanoseconds; 0 where the device has no
// such stage or the run did nothing. A device with streams times them between
// its own events, the CPU by the clock.
struct JobTimes {
  int64_t copy_in_ns = 0;
  int64_t compute_ns = 0;
  int64_t copy_out_ns = 0;
};

// What a run found out beside its output bytes.
struct JobReport {
  bool saw_nan = false;  // in the input
  bool saw_inf = false;
  // Groups for whose global scale 1 stands, since with its own the profile's
  // library would write NaN: those of nothing but zeros, in the main.
  int64_t replaced_globals = 0;
  // Statistics of the copies, if the plan's options ask for them.
  std::optional<ErrorStatistics> rowwise = {};
  std::optional<ErrorStatistics> columnwise = {};
  JobTimes times = {};
};

// What an input adds to an amax that is reduced over several.
struct FoundMaxima {
  CopyAmax amax;  // before any factor of an estimate
  bool saw_nan = false;
  bool saw_inf = false;
};

// Memory of the caller's that a job works on in place of blocks of its own:
// where it lies if the device can, else by copies. It stays where it is until
// the job is gone. Outputs are aligned for their elements and do not overlap
// each other; an input may lie anywhere. Inputs that somebody writes to
// meanwhile make undefined outputs and no other harm.
//
// A device that is no CPU takes its own memory too: what the caller's work has
// to do with that has ended.
struct LentMemory {
  // A span for each of plan.inputs(), of its size. None: the job has staging.
  std::vector<absl::Span<const std::byte>> inputs = {};
  // A span for each of plan.outputs(), of its size. None: TakeOutput has them.
  std::vector<absl::Span<std::byte>> outputs = {};
  // An event of the backend's device, or null: recorded by a job that ends well
  // when its outputs are where they belong.
  const EventMapping* record = nullptr;
};

// One plan resident on one device. Not thread-safe; may move between threads.
// Destruction gives everything back, whatever state the job is in.
//
// Order of calls: Fed as bytes of the staging become final, which may be left
// out; where the amax is reduced over several jobs, FindMaxima and then Settle,
// once each; Run once, TakeOutput once. A job that is destroyed earlier costs
// nothing more.
class Job {
 public:
  virtual ~Job() = default;

  // Staging for plan.input_bytes() bytes, 256-byte aligned, valid until Run
  // returns; empty where inputs were lent. Writing here and then calling
  // Fed is the way in: it lets the door gather straight from the network into
  // the memory the device reads.
  virtual absl::Span<std::byte> staging() = 0;

  // Bytes [0, n) of the staging are final. n never decreases. A device may
  // start to copy; optional, Run implies Fed(plan.input_bytes()).
  virtual void Fed(size_t n) = 0;

  // Finds what the staging, all of it final, adds to the amax of a plan that
  // reduces (kernels/plan/shards.h), for a job with memory of its own alone.
  // Blocks. Errors are those of Run.
  virtual absl::StatusOr<FoundMaxima> FindMaxima() = 0;
  // `plan`, from SettledPlan, takes the place of the job's own.
  virtual absl::Status Settle(std::shared_ptr<const Plan> plan) = 0;

  // Has FindMaxima and Run count up `*pieces`, which outlives the job, whenever
  // a piece of the work is done: a job that counts is slow and does not hang.
  // Only a device that knows does; it is called before these two.
  virtual void CountPieces(std::atomic<uint64_t>* /*pieces*/) {}

  // Computes every output. Blocks. INVALID_ARGUMENT (field "payload") when
  // the plan says NonFinite::kReject and the input holds NaN or Inf; any
  // other error is the device's.
  virtual absl::StatusOr<JobReport> Run() = 0;

  // The plan's output_bytes(), laid out as plan.outputs() says; empty where the
  // outputs were lent. The block stays valid after the job is gone.
  virtual Block TakeOutput() = 0;
};

struct BackendInfo {
  std::string name;         // "cpu:0", "cuda:1"
  std::string kind;         // "cpu", "cuda", "memcpy"
  std::string description;  // "AVX2, 2 threads", "NVIDIA H200, sm_90"
  int slots = 1;            // jobs that may be alive at once
  // Jobs that may be alive beside these while their input comes. Before such a
  // one runs it takes a slot.
  int feeding = 0;
  size_t memory_limit = 0;  // bytes of payload memory its pool may hold
  bool borrows = false;     // its jobs take LentMemory
  bool computes = true;     // false: it only pretends, for benchmarks and tests
};

// Counters that only grow, and the device's state. A snapshot, not one instant.
struct BackendStats {
  bool healthy = true;  // false: it has faulted, and its jobs fail from now on
  uint64_t jobs = 0;
  uint64_t rht_cache_hits = 0;    // a cached (mask, dimension, dtype) served
  uint64_t rht_cache_misses = 0;  // ... was made
  uint64_t rht_launches = 0;      // kernels that read the cached signs
  size_t pool_high_water = 0;
};

// One device. Thread-safe. Outlives its jobs, but not their output blocks.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendInfo& info() const = 0;
  virtual BackendStats stats() const = 0;

  // The plan is kept alive by the job. RESOURCE_EXHAUSTED when no slot or no
  // memory is free, OutOfMemoryError when the device itself has none (see
  // out_of_memory.h), UNIMPLEMENTED for lent memory where info().borrows is
  // false; never waits.
  virtual absl::StatusOr<std::unique_ptr<Job>> Begin(
      std::shared_ptr<const Plan> plan, LentMemory lent) = 0;
  absl::StatusOr<std::unique_ptr<Job>> Begin(std::shared_ptr<const Plan> plan) {
    return Begin(std::move(plan), LentMemory());
  }

  // What its pools lend a job on that memory, at most: nothing but scratch
  // where the device works on all of it where it lies.
  virtual size_t PoolBytes(const Plan& plan, const LentMemory& lent) const;
};

// Jobs that may be fed at a time if the operator does not decide.
inline constexpr int kFeedingJobs = 32;

struct BackendOptions {
  size_t memory_limit = size_t{1} << 30;  // payload memory, in and out
  int slots = 0;                          // 0: the device's own choice
  int threads = 0;                        // CPU only; 0: one per core
  std::string name = {};                  // CPU only: instead of "cpu:N"
  // CPU only: "auto", "baseline", "avx2" or "avx512". The environment
  // variable QUANTD_CPU_ISA overrides "auto".
  std::string isa = "auto";
};

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_BACKEND_H_
