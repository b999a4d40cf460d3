// Parsed PTX instructions, and the functions that execute them.
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
  int guard = -1;  // the predicate's register; -1: none
  std::vector<Argument> arguments;
};

// Instructions of whole warps.
void LoadMatrices(Frame& f, const Instruction& i);
void LoadMatricesTransposed(Frame& f, const Instruction& i);
void StoreMatrices(Frame& f, const Instruction& i);
void MultiplyBf16(Frame& f, const Instruction& i);
void MultiplyHalf(Frame& f, const Instruction& i);

// The function that executes an instruction. Ends the program if the name is
// unknown.
Handler FindInstruction(const std::string& name);

}  // namespace emulation

#endif  // QUANTD_TESTS_EMULATION_PTX_PROGRAM_H_
