// Arguments, registers and operands of instructions.
#ifndef QUANTD_TESTS_EMULATION_PTX_VALUES_H_
#define QUANTD_TESTS_EMULATION_PTX_VALUES_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/emulation/operand.h"
#include "tests/emulation/threads.h"

namespace emulation {

// An argument of an instruction: an operand of the asm statement, a register, a
// number, or several of these in braces or brackets.
struct Argument {
  enum Kind { kOperand, kRegister, kNumber, kList, kAddress, kNothing } kind;
  uint64_t number = 0;  // of the operand or register, or the number itself
  std::vector<Argument> parts;
};

struct Frame {
  Operand* operands;
  uint64_t registers[8] = {};
};
// Ends the program with a message.
[[noreturn]] void RefusePtx(const std::string& what);

inline uint64_t Get(const Frame& f, const Argument& a) {
  switch (a.kind) {
    case Argument::kOperand:
      return f.operands[a.number].bits;
    case Argument::kRegister:
      return f.registers[a.number];
    case Argument::kNumber:
      return a.number;
    default:
      RefusePtx("an operand of several parts");
  }
}
inline void Set(Frame& f, const Argument& a, uint64_t bits) {
  if (a.kind == Argument::kOperand) {
    f.operands[a.number].bits = bits;
  } else if (a.kind == Argument::kRegister) {
    f.registers[a.number] = bits;
  } else if (a.kind != Argument::kNothing) {
    RefusePtx("a result that is no register");
  }
}
inline uint32_t Get32(const Frame& f, const Argument& a) {
  return static_cast<uint32_t>(Get(f, a));
}
inline float GetFloat(const Frame& f, const Argument& a) {
  return std::bit_cast<float>(Get32(f, a));
}
// The address "[a]" or "[a + b]".
inline uint64_t AddressOf(const Frame& f, const Argument& a) {
  uint64_t sum = 0;
  for (const Argument& part : a.parts) sum += Get(f, part);
  return sum;
}
inline std::byte* SharedAt(const Frame& f, const Argument& a) {
  return FromShared(static_cast<uint32_t>(AddressOf(f, a)));
}
inline std::byte* GlobalAt(const Frame& f, const Argument& a) {
  return reinterpret_cast<std::byte*>(AddressOf(f, a));
}
// The halves of a word.
inline uint16_t Low(uint32_t word) { return static_cast<uint16_t>(word); }
inline uint16_t High(uint32_t word) {
  return static_cast<uint16_t>(word >> 16);
}
inline uint32_t Join(uint16_t low, uint16_t high) {
  return low | uint32_t{high} << 16;
}

inline float FromBf16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}
inline float FromHalf(uint16_t bits) {
  return __half2float(__half(__half_raw{bits}));
}
}  // namespace emulation

#endif  // QUANTD_TESTS_EMULATION_PTX_VALUES_H_
