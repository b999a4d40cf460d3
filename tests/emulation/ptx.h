// Interprets inline PTX. Knows only the instructions that the kernels use.
#ifndef QUANTD_TESTS_EMULATION_PTX_H_
#define QUANTD_TESTS_EMULATION_PTX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/emulation/operand.h"

namespace emulation {

void RunPtx(const char* text, Operand* operands);

template <typename... Operands>
void Ptx(const char* text, Operands... operands) {
  std::array<Operand, sizeof...(Operands) + 1> all = {operands..., Operand{}};
  RunPtx(text, all.data());
  for (const Operand& o : all) {
    if (o.place != nullptr) std::memcpy(o.place, &o.bits, o.size);
  }
}

}  // namespace emulation

#endif  // QUANTD_TESTS_EMULATION_PTX_H_
