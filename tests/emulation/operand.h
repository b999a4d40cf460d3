// An operand of inline PTX.
#ifndef QUANTD_TESTS_EMULATION_OPERAND_H_
#define QUANTD_TESTS_EMULATION_OPERAND_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace emulation {

// The bits of an operand, and the variable to which results are copied back.
struct Operand {
  uint64_t bits;
  void* place;  // the variable; nullptr: an input
  size_t size;
};

template <typename T>
Operand Value(const T& v) {
  Operand operand = {0, nullptr, sizeof(T)};
  std::memcpy(&operand.bits, &v, sizeof(T));
  return operand;
}
template <typename T>
Operand Place(T& v) {
  Operand operand = Value(v);
  operand.place = &v;
  return operand;
}

}  // namespace emulation

#endif  // QUANTD_TESTS_EMULATION_OPERAND_H_
