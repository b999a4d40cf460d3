#include "server/net/refusal_pace.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace quantd {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

TEST(RefusalPaceTest, ManyAtOnceThenAtASteadyRate) {
  RefusalPace pace;
  for (int i = 0; i < RefusalPace::kAtOnce; ++i) {
    ASSERT_EQ(pace.Next("a", kStart), kStart) << i;
  }
  const absl::Duration each = absl::Seconds(1) / RefusalPace::kPerSecond;
  for (int i = 1; i <= 100; ++i) {
    ASSERT_EQ(pace.Next("a", kStart), kStart + i * each) << i;
  }
  // Others have a pace of their own.
  EXPECT_EQ(pace.Next("b", kStart), kStart);
  // Time pays for what was told.
  const absl::Time later = kStart + absl::Minutes(1);
  EXPECT_EQ(pace.Next("a", later), later);
}

TEST(RefusalPaceTest, NobodyWaitsLongerThanTheLongest) {
  RefusalPace pace;
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_LE(pace.Next("a", kStart), kStart + RefusalPace::kLongest) << i;
  }
  EXPECT_EQ(pace.Next("a", kStart), kStart + RefusalPace::kLongest);
  const absl::Time later = kStart + absl::Seconds(3);
  EXPECT_EQ(pace.Next("a", later), later);
}

TEST(RefusalPaceTest, ProxiesSpeakForMany) {
  RefusalPace pace([](std::string_view host) { return host == "proxy"; });
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(pace.Next("proxy", kStart), kStart) << i;
  }
}

TEST(RefusalPaceTest, HostsThatAreQuietAreForgotten) {
  RefusalPace pace;
  for (int i = 0; i < 10'000; ++i) {
    const absl::Time now = kStart + i * absl::Seconds(1);
    ASSERT_EQ(pace.Next("host" + std::to_string(i), now), now);
  }
  EXPECT_LT(pace.remembered(), 2048u);
}

}  // namespace
}  // namespace quantd
