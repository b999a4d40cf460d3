#include "tests/emulation/ptx.h"

#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/emulation/ptx_program.h"

namespace emulation {
namespace {

std::string Trimmed(const std::string& s) {
  const size_t first = s.find_first_not_of(" \t\n");
  if (first == std::string::npos) return "";
  return s.substr(first, s.find_last_not_of(" \t\n") - first + 1);
}

std::vector<std::string> SplitAt(const std::string& s, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : s) {
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == separator && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

class Parser {
 public:
  std::vector<Instruction> Parse(std::string text) {
    text = Trimmed(text);
    // Braces only limit the scope of registers.
    if (!text.empty() && text.front() == '{') {
      text = text.substr(1, text.rfind('}') - 1);
    }
    std::vector<Instruction> instructions;
    for (const std::string& part : SplitAt(text, ';')) {
      const std::string line = Trimmed(part);
      if (line.empty()) continue;
      if (line[0] == '.') {
        Declare(line);
      } else {
        instructions.push_back(ParseOne(line));
      }
    }
    return instructions;
  }

 private:
  // ".reg .pred a, b"
  void Declare(const std::string& line) {
    const size_t names = line.find(' ', line.find(' ') + 1);
    for (const std::string& name : SplitAt(line.substr(names), ',')) {
      const uint64_t number = registers_.size();
      registers_[Trimmed(name)] = number;
    }
  }
  Instruction ParseOne(std::string line) {
    Instruction i = {};
    if (line[0] == '@') {
      const size_t end = line.find(' ');
      i.guard = static_cast<int>(registers_.at(line.substr(1, end - 1)));
      line = Trimmed(line.substr(end));
    }
    const size_t end = line.find_first_of(" \t\n");
    i.name = line.substr(0, end);
    if (end != std::string::npos) {
      for (const std::string& a : SplitAt(line.substr(end), ',')) {
        i.arguments.push_back(ParseArgument(Trimmed(a)));
      }
    }
    return i;
  }
  Argument ParseArgument(const std::string& s) {
    Argument a = {Argument::kNothing};
    if (s == "_") return a;
    if (s[0] == '{' || s[0] == '[') {
      const bool address = s[0] == '[';
      a.kind = address ? Argument::kAddress : Argument::kList;
      const std::string inside = s.substr(1, s.size() - 2);
      const bool sum = address && inside.find('+') != std::string::npos;
      for (const std::string& part : SplitAt(inside, sum ? '+' : ',')) {
        a.parts.push_back(ParseArgument(Trimmed(part)));
      }
    } else if (s[0] == '%') {
      a.kind = Argument::kOperand;
      a.number = std::strtoull(s.c_str() + 1, nullptr, 10);
    } else if (std::isdigit(static_cast<unsigned char>(s[0]))) {
      a.kind = Argument::kNumber;
      a.number = std::strtoull(s.c_str(), nullptr, 0);
    } else {
      a.kind = Argument::kRegister;
      a.number = registers_.at(s);
    }
    return a;
  }

  std::map<std::string, uint64_t> registers_;
};

}  // namespace

void RefusePtx(const std::string& what) {
  std::fprintf(stderr, "emulation: unsupported PTX: %s\n", what.c_str());
  std::abort();
}

void RunPtx(const char* text, Operand* operands) {
  static std::unordered_map<const char*, std::vector<Instruction>> programs;
  const auto [place, added] = programs.try_emplace(text);
  if (added) {
    place->second = Parser().Parse(text);
    for (Instruction& i : place->second) i.run = FindInstruction(i.name);
  }
  Frame frame = {operands};
  for (const Instruction& i : place->second) {
    if (i.guard >= 0 && frame.registers[i.guard] == 0) continue;
    i.run(frame, i);
  }
}

}  // namespace emulation
