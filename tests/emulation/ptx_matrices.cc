// Instructions for matrix fragments, which the lanes of a warp hold together.
#include <bit>
#include <cstdint>
#include <cstring>

#include "tests/emulation/ptx_program.h"

namespace emulation {
namespace {

constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// Loads four matrices of 8 x 8 halves. Lane 8 m + r has the address of row r of
// matrix m.
void Load(Frame& f, const Instruction& i, bool transposed) {
  const uint64_t own = AddressOf(f, i.arguments[1]);
  uint64_t rows[32];
  std::memcpy(rows, Exchange(kAllLanes, &own, sizeof(own)), sizeof(rows));
  const auto element = [&](unsigned matrix, unsigned row, unsigned col) {
    const auto address = static_cast<uint32_t>(rows[8 * matrix + row]);
    uint16_t bits;
    std::memcpy(&bits, FromShared(address) + 2 * col, sizeof(bits));
    return bits;
  };
  const unsigned one = current->linear % 32 / 4;
  const unsigned two = current->linear % 4 * 2;
  for (unsigned m = 0; m < 4; ++m) {
    Set(f, i.arguments[0].parts[m],
        transposed ? Join(element(m, two, one), element(m, two + 1, one))
                   : Join(element(m, one, two), element(m, one, two + 1)));
  }
}

// Computes D = A B + C, where A is 16 x 16 and B is 16 x 8. Sums are exact
// where kernels rely on that.
void Multiply(Frame& f, const Instruction& i, float (*of)(uint16_t)) {
  uint32_t own[6];
  for (unsigned n = 0; n < 4; ++n) own[n] = Get32(f, i.arguments[1].parts[n]);
  for (unsigned n = 0; n < 2; ++n) {
    own[4 + n] = Get32(f, i.arguments[2].parts[n]);
  }
  uint32_t all[32][6];
  std::memcpy(all, Exchange(kAllLanes, own, sizeof(own)), sizeof(all));
  const auto half = [&](uint32_t word, unsigned n) {
    return static_cast<double>(of(n % 2 == 0 ? Low(word) : High(word)));
  };
  const auto a = [&](unsigned row, unsigned k) {
    return half(all[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k);
  };
  const auto b = [&](unsigned k, unsigned col) {
    return half(all[col * 4 + k % 8 / 2][4 + k / 8], k);
  };
  const unsigned lane = current->linear % 32;
  for (unsigned n = 0; n < 4; ++n) {
    const unsigned row = lane / 4 + n / 2 * 8;
    const unsigned col = lane % 4 * 2 + n % 2;
    double sum = GetFloat(f, i.arguments[3].parts[n]);
    for (unsigned k = 0; k < 16; ++k) sum += a(row, k) * b(k, col);
    Set(f, i.arguments[0].parts[n],
        std::bit_cast<uint32_t>(static_cast<float>(sum)));
  }
}

}  // namespace

void LoadMatrices(Frame& f, const Instruction& i) { Load(f, i, false); }
void LoadMatricesTransposed(Frame& f, const Instruction& i) {
  Load(f, i, true);
}
// Stores four matrices. Each lane stores the row whose address it has.
void StoreMatrices(Frame& f, const Instruction& i) {
  uint32_t own[4];
  for (unsigned m = 0; m < 4; ++m) own[m] = Get32(f, i.arguments[1].parts[m]);
  uint32_t all[32][4];
  std::memcpy(all, Exchange(kAllLanes, own, sizeof(own)), sizeof(all));
  const unsigned lane = current->linear % 32;
  std::byte* const to = SharedAt(f, i.arguments[0]);
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0) {
    RefusePtx("a row of a matrix that is not aligned");
  }
  for (unsigned c = 0; c < 4; ++c) {
    std::memcpy(to + 4 * c, &all[lane % 8 * 4 + c][lane / 8], 4);
  }
}
void MultiplyBf16(Frame& f, const Instruction& i) { Multiply(f, i, FromBf16); }
void MultiplyHalf(Frame& f, const Instruction& i) { Multiply(f, i, FromHalf); }

}  // namespace emulation
