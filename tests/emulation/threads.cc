#include "tests/emulation/threads.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <vector>

namespace emulation {
namespace {

constexpr size_t kStack = size_t{256} << 10;
constexpr size_t kMaxThreads = 1024;
constexpr size_t kMaxShared = size_t{227} << 10;

struct Fiber {
  Thread thread;
  jmp_buf at;
  bool started = false;
  bool done = false;
  uint64_t exchanges = 0;
};

// Exchanges of the lanes of a mask. Values of two rounds are kept, because
// lanes may still read those of one round when the next begins.
struct Meeting {
  unsigned mask = 0;
  unsigned here[2] = {};
  uint64_t round = 0;
  std::byte values[2][32][64];
  size_t size = 0;
};

struct CtaBarrier {
  unsigned here = 0;
  uint64_t phase = 0;
};

struct Cta {
  std::vector<Fiber> fibers;
  std::vector<unsigned> order;
  std::vector<unsigned> every;  // by warp: n if it runs in every n-th turn
  unsigned running = 0;         // index in `order`
  unsigned left = 0;
  uint64_t idle = 0;  // turns without progress
  // By warp and mask.
  std::map<std::pair<unsigned, unsigned>, std::unique_ptr<Meeting>> meetings;
  std::map<std::pair<unsigned, unsigned>, uint64_t> rounds;  // by thread, mask
  CtaBarrier barriers[16];
  const std::function<void()>* kernel = nullptr;
};

Cta* cta = nullptr;
jmp_buf scheduler;
std::byte* stacks = nullptr;
std::mutex one_launch;
void (*at_end)() = nullptr;

[[noreturn]] void Die(const char* why) {
  std::fprintf(stderr, "emulation: %s (thread %u of CTA %u,%u)\n", why,
               current->linear, current->block.x, current->block.y);
  std::abort();
}

void Begin() {
  (*cta->kernel)();
  Fiber& self = cta->fibers[cta->order[cta->running]];
  self.done = true;
  --cta->left;
  GotOn();
  _longjmp(scheduler, 1);
}

void Start(Fiber& fiber) {
  fiber.started = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = stacks + kStack * fiber.thread.linear;
  context.uc_stack.ss_size = kStack;
  context.uc_link = nullptr;
  makecontext(&context, Begin, 0);
  setcontext(&context);
}

void RunCta(Cta& made) {
  cta = &made;
  for (uint64_t turn = 0; made.left > 0; ++turn) {
    for (unsigned i = 0; i < made.order.size(); ++i) {
      Fiber& fiber = made.fibers[made.order[i]];
      if (fiber.done || turn % made.every[fiber.thread.linear / 32] != 0) {
        continue;
      }
      made.running = i;
      current = &fiber.thread;
      if (_setjmp(scheduler) == 0) {
        if (fiber.started) _longjmp(fiber.at, 1);
        Start(fiber);
      }
    }
    if (made.left > 0 && ++made.idle > 100000) Die("no thread makes progress");
  }
  cta = nullptr;
}

// Sets the order of threads. If QUANTD_EMULATION_SEED is 0, they run in the
// order of their numbers. Other seeds permute them and make a quarter of the
// warps slow.
void Arrange(uint64_t launch, unsigned threads, std::vector<unsigned>* order,
             std::vector<unsigned>* every) {
  static const char* const seed = std::getenv("QUANTD_EMULATION_SEED");
  constexpr unsigned kSlow = 8;
  order->resize(threads);
  std::iota(order->begin(), order->end(), 0u);
  every->assign((threads + 31) / 32, 1);
  if (seed == nullptr || std::atoi(seed) == 0) return;
  std::mt19937_64 random(static_cast<uint64_t>(std::atoi(seed)) * 1000003 +
                         launch);
  std::shuffle(order->begin(), order->end(), random);
  for (unsigned& turns : *every) {
    if (random() % 4 == 0) turns = kSlow;
  }
}

}  // namespace

Thread* current = nullptr;
alignas(1024) static std::byte shared_memory[kMaxShared];
std::byte* dynamic_shared = shared_memory;

void Yield() {
  Fiber& self = cta->fibers[cta->order[cta->running]];
  if (_setjmp(self.at) == 0) _longjmp(scheduler, 1);
}
void GotOn() { cta->idle = 0; }
void AtEndOfCta(void (*check)()) { at_end = check; }

const std::byte* Exchange(unsigned mask, const void* mine, size_t size) {
  const unsigned warp = current->linear / 32;
  const unsigned lane = current->linear % 32;
  if ((mask >> lane & 1) == 0) Die("a lane is not in its own mask");
  if (size > 64) Die("too much to exchange");
  auto& place = cta->meetings[{warp, mask}];
  if (!place) {
    place = std::make_unique<Meeting>();
    place->mask = mask;
  }
  Meeting& m = *place;
  uint64_t& round = cta->rounds[{current->linear, mask}];
  const unsigned side = round % 2;
  std::memcpy(m.values[side][lane], mine, size);
  m.here[side] |= 1u << lane;
  ++round;
  if (m.here[side] == mask) {
    m.here[side] = 0;
    m.round = round;
    GotOn();
  }
  while (m.round < round) Yield();
  // Packs the values, so that callers can index them by lane.
  static std::byte packed[32][64];
  static std::byte out[32 * 64];
  std::memcpy(packed, m.values[side], sizeof(packed));
  for (unsigned i = 0; i < 32; ++i)
    std::memcpy(out + i * size, packed[i], size);
  return out;
}

void Barrier(unsigned number, unsigned threads) {
  CtaBarrier& b = cta->barriers[number];
  const uint64_t phase = b.phase;
  if (++b.here == threads) {
    b.here = 0;
    ++b.phase;
    GotOn();
  }
  while (b.phase == phase) Yield();
}

uint32_t ToShared(const void* p) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(p));
}
// (All static memory of the program is within 2 GiB of shared_memory.)
std::byte* FromShared(uint32_t address) {
  const auto near = reinterpret_cast<uintptr_t>(shared_memory);
  const auto away = static_cast<int32_t>(address - static_cast<uint32_t>(near));
  return reinterpret_cast<std::byte*>(near + static_cast<intptr_t>(away));
}

void Run(dim3 grid, dim3 block, size_t shared,
         const std::function<void()>& kernel) {
  const std::lock_guard lock(one_launch);
  static uint64_t launches = 0;
  ++launches;
  const unsigned threads = block.x * block.y * block.z;
  if (threads > kMaxThreads || shared > kMaxShared) {
    std::fprintf(stderr,
                 "emulation: %u threads and %zu bytes of shared memory are too "
                 "many for a CTA\n",
                 threads, shared);
    std::abort();
  }
  if (stacks == nullptr) {
    stacks = static_cast<std::byte*>(
        mmap(nullptr, kStack * kMaxThreads, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (stacks == MAP_FAILED) std::abort();
  }
  std::vector<unsigned> order;
  std::vector<unsigned> every;
  Arrange(launches, threads, &order, &every);
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        Cta made;
        made.fibers.resize(threads);
        made.order = order;
        made.every = every;
        made.left = threads;
        made.kernel = &kernel;
        for (unsigned i = 0; i < threads; ++i) {
          Thread& t = made.fibers[i].thread;
          t.thread = {i % block.x, i / block.x % block.y,
                      i / block.x / block.y};
          t.block = {x, y, z};
          t.block_size = block;
          t.grid_size = grid;
          t.linear = i;
        }
        // Overwrites what the last CTA left, so that reads of unwritten bytes
        // show.
        std::memset(shared_memory, 0xA5, shared);
        RunCta(made);
        if (at_end != nullptr) at_end();
      }
    }
  }
}

}  // namespace emulation
