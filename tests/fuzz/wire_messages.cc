#include "tests/fuzz/wire_messages.h"

#include <algorithm>
#include <cstring>

#include "tests/proto/raw_message.h"

namespace quantd::wire {

std::string RandomBytes(size_t n, Random& random) {
  std::string out(n, '\0');
  for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
    const uint64_t word = random.Next();
    std::memcpy(out.data() + i, &word, std::min(n - i, sizeof word));
  }
  return out;
}

uint64_t Awkward(Random& random) {
  switch (random.Below(8)) {
    case 0:
      return random.Next();
    case 1:
      return (uint64_t{1} << random.Below(64)) - random.Below(2);
    case 2:
      return ~uint64_t{0} - random.Below(20);
    case 3:
      return 0x7fffffff - random.Below(32);
    default:
      return random.Below(20);
  }
}

namespace {

uint64_t AnyField(Random& random) {
  switch (random.Below(6)) {
    case 0:
      return kPayloadField;
    case 1:
      return random.Below(20000);
    case 2:
      return Awkward(random);
    default:
      return 1 + random.Below(25);
  }
}

}  // namespace

std::string RawFields(int depth, Random& random) {
  std::string out;
  for (uint64_t i = random.Below(6); i > 0; --i) {
    const uint64_t field = AnyField(random);
    const int type = static_cast<int>(random.Below(random.OneIn(10) ? 8 : 6));
    out += Tag(field, type,
               static_cast<int>(random.OneIn(10) ? random.Below(7) : 0));
    switch (type) {
      case kVarint:
        out += Varint(Awkward(random),
                      static_cast<int>(random.OneIn(8) ? random.Below(13) : 0));
        break;
      case kFixed64:
        out += RandomBytes(8, random);
        break;
      case kDelimited: {
        const std::string content = depth > 0 && random.OneIn(2)
                                        ? RawFields(depth - 1, random)
                                        : RandomBytes(random.Below(20), random);
        const uint64_t length =
            random.OneIn(15) ? Awkward(random) : content.size();
        out +=
            Varint(length,
                   static_cast<int>(random.OneIn(10) ? random.Below(7) : 0)) +
            content;
        break;
      }
      case kStartGroup:
        if (depth > 0) out += RawFields(depth - 1, random);
        if (!random.OneIn(10)) out += Tag(field, kEndGroup);
        break;
      case kFixed32:
        out += RandomBytes(4, random);
        break;
      default:
        break;
    }
  }
  return out;
}

void Mutate(std::string* message, Random& random) {
  std::string& m = *message;
  const size_t at = random.Below(m.size() + 1);
  const size_t n = random.Below(std::min<size_t>(m.size() - at, 24) + 1);
  // Mutates the front, where tags and lengths are; most of a message is
  // payload.
  const size_t front = random.Below(std::min<size_t>(m.size(), 40) + 1);
  switch (random.Below(10)) {
    case 0:
      if (at < m.size()) m[at] ^= static_cast<char>(1 << random.Below(8));
      break;
    case 1:
      if (front < m.size()) m[front] = static_cast<char>(random.Next());
      break;
    case 2:
      m.resize(at);
      break;
    case 3:
      m.insert(front, RandomBytes(random.Below(6), random));
      break;
    case 4:
      m.insert(at, std::string(m.substr(at, n)));
      break;
    case 5:
      m.erase(front, n);
      break;
    case 6:
      m.insert(front,
               Varint(Awkward(random), static_cast<int>(random.Below(13))));
      break;
    case 7: {
      // Nested groups around the limit of 100.
      const size_t groups =
          random.OneIn(4) ? 98 + random.Below(5) : random.Below(6);
      std::string nest;
      for (size_t i = 0; i < groups; ++i) nest += Tag(9, kStartGroup);
      nest += RawFields(1, random);
      for (size_t i = 0; i < groups; ++i) nest += Tag(9, kEndGroup);
      m.insert(random.OneIn(2) ? 0 : m.size(), nest);
      break;
    }
    case 8:
      m.insert(random.OneIn(2) ? 0 : m.size(), RawFields(2, random));
      break;
    default:
      // Adds a second payload, a whole message or a part of one.
      m += random.OneIn(2) ? Payload(RandomBytes(random.Below(9), random))
                           : m.substr(0, front);
      break;
  }
}

std::string AnyMessage(int type, Random& random) {
  std::string message;
  switch (random.Below(8)) {
    case 0:
      message = RawFields(4, random);
      break;
    case 1:
      message = RandomBytes(random.Below(60), random);
      break;
    case 2:
      return LegalMessage(type, random);
    case 3:  // a message of another type
      message = LegalMessage(static_cast<int>(random.Below(5)), random);
      break;
    default:
      message = LegalMessage(type, random);
      break;
  }
  for (uint64_t i = random.Below(4); i > 0; --i) Mutate(&message, random);
  return message;
}

std::vector<std::string_view> AnyCut(std::string_view message, Random& random) {
  std::vector<size_t> cuts;
  if (random.OneIn(8)) {
    // Cuts the front, where the tags are, into single bytes.
    for (size_t i = 0; i < std::min<size_t>(message.size(), 64); ++i) {
      cuts.push_back(i);
    }
  }
  for (uint64_t i = random.Below(10); i > 0; --i) {
    cuts.push_back(random.Below(message.size() + 1));
    if (random.OneIn(4)) cuts.push_back(cuts.back());  // an empty slice
    if (random.OneIn(4) && cuts.back() < message.size()) {
      cuts.push_back(cuts.back() + 1);  // a slice of one byte
    }
  }
  std::sort(cuts.begin(), cuts.end());
  return Cut(message, cuts);
}

}  // namespace quantd::wire
