#include "client/net/picker.h"

#include <map>
#include <vector>

#include "tests/testing/matchers.h"

namespace quantd::client {
namespace {

using std::chrono::seconds;
using Kind = Choice::Kind;

const std::chrono::system_clock::time_point kNow{seconds(1'000'000)};

Candidate Of(Health health, size_t bytes = 0, uint64_t last_pick = 0) {
  Candidate c;
  c.health = health;
  c.bytes_under_way = bytes;
  c.last_pick = last_pick;
  return c;
}
Candidate Tried(Candidate c) {
  c.tried = true;
  return c;
}
Candidate Avoided(Candidate c) {
  c.avoid_until = kNow + seconds(1);
  return c;
}

// Returns the index of the chosen server, -1 to wait, or -2 without a choice.
int Pick(const std::vector<Candidate>& candidates) {
  const Choice choice = Choose(candidates, kNow);
  if (choice.kind == Kind::kTake) return static_cast<int>(choice.index);
  return choice.kind == Kind::kWait ? -1 : -2;
}

TEST(Picker, ReturnsNoneWithoutServers) { EXPECT_EQ(Pick({}), -2); }

TEST(Picker, PicksTheFewestBytesInFlight) {
  EXPECT_EQ(Pick({Of(Health::kServing, 512 << 20), Of(Health::kServing, 4096),
                  Of(Health::kServing, 8192)}),
            1);
}

TEST(Picker, RotatesAmongEqualServers) {
  std::vector<Candidate> three(3, Of(Health::kServing));
  std::map<size_t, int> picks;
  for (uint64_t i = 1; i <= 30; ++i) {
    const Choice choice = Choose(three, kNow);
    three[choice.index].last_pick = i;
    ++picks[choice.index];
  }
  EXPECT_THAT(picks,
              testing::ElementsAre(testing::Pair(0, 10), testing::Pair(1, 10),
                                   testing::Pair(2, 10)));
}

TEST(Picker, PrefersServingOverDrainingAndDownServers) {
  EXPECT_EQ(Pick({Of(Health::kDown), Of(Health::kDraining),
                  Of(Health::kUnknown), Of(Health::kServing, 1 << 30)}),
            3);
}

TEST(Picker, AvoidsServersThatFailed) {
  EXPECT_EQ(
      Pick({Avoided(Of(Health::kServing)), Of(Health::kServing, 1 << 30)}), 1);
  const std::vector<Candidate> all = {Avoided(Of(Health::kServing, 10)),
                                      Avoided(Of(Health::kServing, 5))};
  EXPECT_EQ(Pick(all), 1);
  EXPECT_TRUE(Choose(all, kNow).avoided);
  EXPECT_FALSE(Choose(all, kNow + seconds(2)).avoided);
}

TEST(Picker, SkipsServersThatWereTried) {
  EXPECT_EQ(Pick({Tried(Of(Health::kServing)), Of(Health::kServing, 1 << 30)}),
            1);
  EXPECT_EQ(Pick({Tried(Of(Health::kServing)), Of(Health::kDown)}), -2);
  // A server that may hang is not waited for while another one serves.
  EXPECT_EQ(Pick({Tried(Of(Health::kServing)), Of(Health::kUnknown)}), -2);
}

TEST(Picker, WaitsForUnknownServersOnly) {
  EXPECT_EQ(Pick({Of(Health::kUnknown), Of(Health::kDown)}), -1);
  EXPECT_EQ(Pick({Of(Health::kUnknown), Of(Health::kDraining)}), -1);
  EXPECT_EQ(Pick({Of(Health::kDown), Of(Health::kDown)}), -2);
}

TEST(Picker, UsesADrainingServerAsLastResort) {
  EXPECT_EQ(Pick({Of(Health::kDown), Of(Health::kDraining)}), 1);
  EXPECT_EQ(Pick({Of(Health::kDown), Tried(Of(Health::kDraining))}), -2);
}

}  // namespace
}  // namespace quantd::client
