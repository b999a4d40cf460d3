// A parsed piece of PTX, for ptx.cc and the instructions.
#ifndef QUANTD_TESTS_EMULATION_PTX_PROGRAM_H_
#define QUANTD_TESTS_EMULATION_PTX_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/emulation/ptx_values.h"

namespace emulation {

struct Instruction;
using Handler = void (*)(Frame&, const Instruction&);

struct Instruction {
  Handler run;
  std::string name;
  int guard = -1;  // a predicate's register
  std::vector<Argument> arguments;
};

// Instructions of whole warps.
void LoadMatrices(Frame& f, const Instruction& i);
void LoadMatricesTransposed(Frame& f, const Instruction& i);
void StoreMatrices(Frame& f, const Instruction& i);
void MultiplyBf16(Frame& f, const Instruction& i);
void MultiplyHalf(Frame& f, const Instruction& i);

// The effect of an instruction. Ends the program if no instruction has that
// name.
Handler FindInstruction(const std::string& name);

}  // namespace emulation

#endif  // QUANTD_TESTS_EMULATION_PTX_PROGRAM_H_
