// Compares random messages with protobuf. QUANTD_FUZZ_CASES and
// QUANTD_FUZZ_SEED override the number of cases and the first seed. Case i has
// the seed "first + i", so that a failed case runs alone with
// QUANTD_FUZZ_CASES=1 and the seed of its message.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/escaping.h"
#include "google/protobuf/stubs/logging.h"
#include "tests/fuzz/wire_check.h"
#include "tests/fuzz/wire_messages.h"

namespace quantd::wire {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

TEST(WireFuzz, AgreesWithProtobuf) {
  const uint64_t cases = FromEnvironment("QUANTD_FUZZ_CASES", 200'000);
  const uint64_t first = FromEnvironment("QUANTD_FUZZ_SEED", 20'260'101);
  // protobuf logs a line for every string that is not UTF-8.
  const google::protobuf::LogSilencer quiet;
  uint64_t legal = 0;
  uint64_t planned = 0;
  uint64_t planned_of[kMessageTypes] = {};
  uint64_t reduces = 0;
  uint64_t answers = 0;
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < cases; ++i) {
    Random random(first + i);
    const int type = static_cast<int>(random.Below(kMessageTypes));
    const std::string message = AnyMessage(type, random);
    // Messages must be below quantd's limits, which protobuf does not have.
    ASSERT_LE(message.size(), kMaxHeadBytes) << "seed " << first + i;
    const Verdict verdict =
        CheckMessage(type, message, AnyCut(message, random));
    legal += verdict.legal;
    planned += verdict.planned;
    planned_of[type] += verdict.planned;
    reduces += verdict.reduces;
    answers += verdict.answers;
    ASSERT_EQ(verdict.difference, "")
        << "seed " << first + i << ", type " << type << ", message "
        << absl::BytesToHexString(message);
  }
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  std::printf(
      "%llu cases from seed %llu, %.0f per second: %.1f %% legal, %.1f %% "
      "planned\n",
      static_cast<unsigned long long>(cases),
      static_cast<unsigned long long>(first), cases / took.count(),
      100.0 * legal / cases, 100.0 * planned / cases);
  // The cases must include enough legal and illegal messages.
  if (cases >= 10'000) {
    EXPECT_GT(legal, cases / 5);
    EXPECT_LT(legal, cases * 4 / 5);
    EXPECT_GT(planned, cases / 10);
    for (const MethodSpec& row : kTensorMethods) {
      EXPECT_GT(planned_of[Index(row.method)], cases / 70) << row.path;
    }
    EXPECT_GT(planned_of[kStreamType], cases / 70);
    EXPECT_GT(reduces, cases / 10'000);
    EXPECT_GT(answers, cases / 1'000);
  }
}

}  // namespace
}  // namespace quantd::wire
