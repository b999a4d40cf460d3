// Random messages: legal ones, legal ones after accidents, and garbage.
#ifndef QUANTD_TESTS_FUZZ_WIRE_MESSAGES_H_
#define QUANTD_TESTS_FUZZ_WIRE_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quantd::wire {

// Numbers that depend on the seed alone, on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {  // splitmix64
    uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // In [0, n); n > 0.
  uint64_t Below(uint64_t n) { return Next() % n; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

 private:
  uint64_t state_;
};

std::string RandomBytes(size_t n, Random& random);
// Numbers that parsers stumble over, and small ones.
uint64_t Awkward(Random& random);

// A message of `type` (see wire_check.h) that protobuf accepts, mostly also
// one that a plan can be made of.
std::string LegalMessage(int type, Random& random);

// One of a stream.
std::string StreamMessage(Random& random);

// Fields that no message has or that are of the wrong type, one after the
// other; mostly well-formed.
std::string RawFields(int depth, Random& random);

// One accident: bytes flipped, cut off, put in, doubled, moved, a tag or a
// length exchanged.
void Mutate(std::string* message, Random& random);

// Any of the above; at most a few KiB.
std::string AnyMessage(int type, Random& random);

// `message` in up to some dozens of slices, empty and short ones among them.
std::vector<std::string_view> AnyCut(std::string_view message, Random& random);

}  // namespace quantd::wire

#endif  // QUANTD_TESTS_FUZZ_WIRE_MESSAGES_H_
