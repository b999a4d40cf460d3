#include "tests/emulation/copies.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "tests/emulation/threads.h"

namespace emulation {
namespace {

void Make(std::vector<ThreadCopies::Copy>& copies) {
  for (const auto& c : copies) {
    std::memcpy(c.to, c.from, c.bytes);
    std::memset(c.to + c.bytes, 0, c.zeros);
  }
  copies.clear();
}

// The phase of a barrier, and the arrivals and bytes that it still waits for.
struct BarrierState {
  uint32_t phase : 1;
  uint32_t count : 15;
  uint32_t pending : 16;
  int32_t bytes;
};
static_assert(sizeof(BarrierState) == 8);

BarrierState Load(const std::byte* at) {
  BarrierState state;
  std::memcpy(&state, at, sizeof(state));
  return state;
}
void Store(BarrierState state, std::byte* at) {
  if (state.pending == 0 && state.bytes == 0) {
    state.phase ^= 1;
    state.pending = state.count;
    GotOn();
  }
  std::memcpy(at, &state, sizeof(state));
}

struct Box {
  TensorMapFields map;
  std::byte* to;
  int64_t x, y;
  std::byte* barrier;
};
std::deque<Box> boxes;

void CheckThatNoneIsLeft() {
  if (boxes.empty()) return;
  std::fprintf(stderr, "emulation: a CTA ended before its copies\n");
  std::abort();
}

void Make(const Box& box) {
  const TensorMapFields& m = box.map;
  const uint32_t per_piece = 16 / m.element_bytes;
  for (uint32_t r = 0; r < m.box_rows; ++r) {
    for (uint32_t piece = 0; piece < 8; ++piece) {
      std::byte* const to = box.to + r * 128 + (piece ^ r % 8) * 16;
      for (uint32_t e = 0; e < per_piece; ++e) {
        const uint64_t row = static_cast<uint64_t>(box.y + r);
        const uint64_t col =
            static_cast<uint64_t>(box.x + piece * per_piece + e);
        std::byte* const element = to + e * m.element_bytes;
        if (row < m.rows && col < m.cols) {
          std::memcpy(element, m.data + row * m.pitch + col * m.element_bytes,
                      m.element_bytes);
        } else {
          std::memset(element, 0, m.element_bytes);
        }
      }
    }
  }
  BarrierState state = Load(box.barrier);
  state.bytes -= static_cast<int32_t>(m.box_rows * 128);
  Store(state, box.barrier);
}

}  // namespace

void ThreadCopies::Commit() {
  groups.push_back(std::move(open));
  open.clear();
}
void ThreadCopies::Await(size_t left) {
  while (groups.size() > left) {
    Make(groups.front());
    groups.erase(groups.begin());
  }
}
void ThreadCopies::AwaitAll() {
  Commit();
  Await(0);
}

void InitBarrier(std::byte* at, uint32_t count) {
  BarrierState state = {};
  state.count = state.pending = count;
  std::memcpy(at, &state, sizeof(state));
}
void ExpectAt(std::byte* at, uint32_t bytes) {
  BarrierState state = Load(at);
  state.bytes += static_cast<int32_t>(bytes);
  Store(state, at);
}
void ArriveAt(std::byte* at) {
  BarrierState state = Load(at);
  if (state.pending == 0) {
    std::fprintf(stderr, "emulation: too many arrivals at a barrier\n");
    std::abort();
  }
  --state.pending;
  Store(state, at);
}
bool IsOver(std::byte* at, uint32_t parity) {
  if (Load(at).phase == parity && !boxes.empty()) {
    const Box box = boxes.front();
    boxes.pop_front();
    Make(box);
    GotOn();
  }
  return Load(at).phase != parity;
}

void CopyBox(const void* map, std::byte* to, int64_t x, int64_t y,
             std::byte* barrier) {
  AtEndOfCta(CheckThatNoneIsLeft);
  Box box = {};
  std::memcpy(&box.map, map, sizeof(box.map));
  box.to = to;
  box.x = x;
  box.y = y;
  box.barrier = barrier;
  boxes.push_back(box);
}

}  // namespace emulation
