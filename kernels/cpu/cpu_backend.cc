#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/cpu/cpu_job.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/tiles.h"
#include "kernels/device/budget.h"
#include "kernels/device/lent_memory.h"

namespace quantd::cpu {
namespace {

struct Isa {
  const char* name;
  const char* description;
  const TileKernels* tiles;
  bool (*supported)();
};

// The instruction sets that were built, best last. All are, unless QUANTD_QUICK
// is set.
const Isa kIsas[] = {
#ifdef QUANTD_HAS_baseline
    {"baseline", "baseline SIMD", &kBaselineTiles, [] { return true; }},
#endif
#ifdef QUANTD_HAS_avx2
    {"avx2", "AVX2", &kAvx2Tiles,
     [] {
       return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("f16c");
     }},
#endif
#ifdef QUANTD_HAS_avx512
    {"avx512", "AVX-512", &kAvx512Tiles,
     [] {
       return __builtin_cpu_supports("avx512f") &&
              __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl") &&
              __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
     }},
#endif
};

absl::StatusOr<const Isa*> ChooseIsa(std::string wanted) {
  if (wanted == "auto") {
    const char* forced = std::getenv("QUANTD_CPU_ISA");
    if (forced != nullptr && *forced != '\0') wanted = forced;
  }
  const Isa* best = nullptr;
  for (const Isa& isa : kIsas) {
    if (!isa.supported()) continue;
    best = &isa;
    if (wanted == isa.name) return best;
  }
  if (best == nullptr) {
    return absl::FailedPreconditionError(fmt::format(
        "this program was built with QUANTD_QUICK for CPUs with {}: build it "
        "again on this machine, or without QUANTD_QUICK",
        kIsas[0].description));
  }
  if (wanted == "auto") return best;
  return absl::InvalidArgumentError(fmt::format(
      "CPU ISA '{}': expected auto or one that this machine has ({})", wanted,
      fmt::join(ListIsas(), ", ")));
}

// Sizes of the blocks that a job needs in addition to the memory lent to it.
struct BlockSizes {
  BlockSizes(const Plan& plan, const LentMemory& lent)
      : copies_inputs(!InputsCanStay(plan, lent)),
        in(lent.inputs.empty() || copies_inputs ? plan.input_bytes() : 0),
        out(lent.outputs.empty() ? plan.output_bytes() : 0),
        scratch(plan.scratch_bytes()) {}
  bool copies_inputs;
  size_t in;
  size_t out;
  size_t scratch;
};

class CpuBackend : public Backend {
 public:
  CpuBackend(BackendInfo info, const TileKernels* tiles, int threads)
      : info_(std::move(info)),
        device_(tiles, threads,
                BlockPool::Create(PageableSource(), info_.memory_limit)) {}

  const BackendInfo& info() const override { return info_; }

  BackendStats stats() const override {
    BackendStats s;
    s.jobs = device_.jobs;
    s.rht_cache_hits = device_.signs.hits;
    s.rht_cache_misses = device_.signs.misses;
    s.rht_launches = device_.rht_launches;
    s.pool_high_water = device_.pool->high_water();
    return s;
  }

  absl::StatusOr<std::unique_ptr<Job>> Begin(std::shared_ptr<const Plan> plan,
                                             LentMemory lent) override {
    if (!info_.borrows && !(lent.inputs.empty() && lent.outputs.empty())) {
      return absl::UnimplementedError(
          fmt::format("{} accepts no lent memory", info_.name));
    }
    if (++device_.live > info_.slots + info_.feeding) {
      --device_.live;
      return absl::ResourceExhaustedError(
          fmt::format("all {} slots of {} are taken", info_.slots, info_.name));
    }
    JobBlocks blocks;
    const BlockSizes sizes(*plan, lent);
    blocks.copies_inputs = sizes.copies_inputs;
    const std::pair<size_t, Block*> wanted[] = {
        {sizes.in, &blocks.in},
        {sizes.out, &blocks.out},
        {sizes.scratch, &blocks.scratch},
    };
    for (const auto& [bytes, to] : wanted) {
      absl::StatusOr<Block> block = device_.pool->Take(bytes);
      if (!block.ok()) {
        --device_.live;
        return block.status();
      }
      *to = *std::move(block);
    }
    blocks.lent = std::move(lent);
    return MakeCpuJob(&device_, std::move(plan), std::move(blocks));
  }

  size_t PoolBytes(const Plan& plan, const LentMemory& lent) const override {
    if (!info_.borrows) return PayloadNeed(plan);
    const BlockSizes sizes(plan, lent);
    return BlockPool::Charge(sizes.in) + BlockPool::Charge(sizes.out) +
           BlockPool::Charge(sizes.scratch);
  }

 private:
  const BackendInfo info_;
  CpuDevice device_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> Open(std::string name,
                                              const BackendOptions& options) {
  const absl::StatusOr<const Isa*> isa = ChooseIsa(options.isa);
  if (!isa.ok()) return isa.status();
  const int threads = options.threads > 0 ? options.threads : UsableCores();
  BackendInfo info;
  info.name = std::move(name);
  info.kind = "cpu";
  info.description = fmt::format("{}, {} thread{}", (*isa)->description,
                                 threads, threads == 1 ? "" : "s");
  info.slots = options.slots > 0 ? options.slots : std::max(4, threads);
  info.feeding = kFeedingJobs;
  info.memory_limit = options.memory_limit;
  info.borrows = true;
  return std::make_unique<CpuBackend>(std::move(info), (*isa)->tiles, threads);
}

absl::StatusOr<std::unique_ptr<Backend>> OpenMemcpy(
    const BackendOptions& options) {
  BackendInfo info;
  info.name = "memcpy";
  info.kind = "memcpy";
  info.description = "copies instead of computing, for benchmarks";
  info.computes = false;
  info.slots = options.slots > 0 ? options.slots : std::max(4, UsableCores());
  info.feeding = kFeedingJobs;
  info.memory_limit = options.memory_limit;
  return std::make_unique<CpuBackend>(std::move(info), nullptr, 1);
}

std::vector<std::string> ListIsas() {
  std::vector<std::string> names;
  for (const Isa& isa : kIsas) {
    if (isa.supported()) names.push_back(isa.name);
  }
  return names;
}

}  // namespace quantd::cpu
