// Runs a target on the inputs of a corpus and on random changes of them, with
// any compiler: a regression test of earlier findings, and a short search.
//
//   fuzz_<name> [--changes N] FILE|FOLDER...
//
// Each input is changed N times (default 0). The changes are the same on every
// machine.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/targets/target.h"

namespace {

namespace fs = std::filesystem;
using Random = std::minstd_rand;

// The limit of tests/fuzz/run.sh.
constexpr size_t kMostBytes = 4096;

size_t Below(size_t n, Random& random) { return random() % n; }

// Flips a bit, replaces a byte, cuts the end off, repeats or removes some
// bytes, or inserts bytes of another input.
void Change(const std::string& other, std::string* input, Random& random) {
  const size_t at = Below(input->size() + 1, random);
  const size_t count = Below(24, random);
  switch (Below(6, random)) {
    case 0:
      if (at < input->size()) (*input)[at] ^= 1 << Below(8, random);
      break;
    case 1:
      if (at < input->size()) (*input)[at] = static_cast<char>(random());
      break;
    case 2:
      input->resize(at);
      break;
    case 3:
      input->insert(at, std::string(input->substr(at, count)));
      break;
    case 4:
      input->erase(at, count);
      break;
    default:
      input->insert(at, other, Below(other.size() + 1, random), count);
      break;
  }
  input->resize(std::min(input->size(), kMostBytes));
}

void Run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()),
                         bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  const bool changes_given = argc > 2 && argv[1] == std::string("--changes");
  const int changes = changes_given ? std::atoi(argv[2]) : 0;
  std::vector<fs::path> files;
  for (int i = changes_given ? 3 : 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(argv[i])) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> inputs;
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(in),
                        std::istreambuf_iterator<char>());
    if (!in) {
      std::fprintf(stderr, "cannot read %s\n", file.c_str());
      return 1;
    }
  }
  Random random;
  for (size_t i = 0; i < inputs.size(); ++i) {
    // Prints the name first, so that the last name printed is the input that
    // ends the process.
    std::fprintf(stderr, "%s\n", files[i].c_str());
    Run(inputs[i]);
    for (int n = 0; n < changes; ++n) {
      std::string changed = inputs[i];
      for (size_t left = 1 + Below(3, random); left > 0; --left) {
        Change(inputs[Below(inputs.size(), random)], &changed, random);
      }
      Run(changed);
    }
  }
  std::fprintf(stderr, "%zu inputs, each changed %d times\n", inputs.size(),
               changes);
  // An empty corpus is an error.
  return inputs.empty() ? 1 : 0;
}
