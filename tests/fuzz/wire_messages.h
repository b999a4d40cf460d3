// Random messages: legal, mutated and arbitrary ones.
#ifndef QUANTD_TESTS_FUZZ_WIRE_MESSAGES_H_
#define QUANTD_TESTS_FUZZ_WIRE_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quantd::wire {

// A random generator that gives the same numbers for a seed on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {  // splitmix64
    uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // Returns a number in [0, n); n > 0.
  uint64_t Below(uint64_t n) { return Next() % n; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

 private:
  uint64_t state_;
};

std::string RandomBytes(size_t n, Random& random);
// Returns an edge case for parsers, or a small number.
uint64_t Awkward(Random& random);

// Returns a message of `type` (see wire_check.h) that protobuf accepts and for
// which mostly a plan exists.
std::string LegalMessage(int type, Random& random);

// Returns a message of a stream.
std::string StreamMessage(Random& random);

// Returns fields that are unknown or of a wrong type, and mostly well-formed.
std::string RawFields(int depth, Random& random);

// Mutates a message once: flips a bit, replaces, removes, doubles or inserts
// bytes, or inserts numbers, fields or groups.
void Mutate(std::string* message, Random& random);

// Returns any of these messages, of at most a few KiB.
std::string AnyMessage(int type, Random& random);

// Cuts `message` into up to some dozens of slices, including empty and short
// ones.
std::vector<std::string_view> AnyCut(std::string_view message, Random& random);

}  // namespace quantd::wire

#endif  // QUANTD_TESTS_FUZZ_WIRE_MESSAGES_H_
