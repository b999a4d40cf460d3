#include "client/checkpoint/convert/service.h"

#include <array>
#include <atomic>

#include "tests/testing/matchers.h"
#include "tests/testing/no_threads.h"

namespace quantd::checkpoint {
namespace {

TEST(ForEachUnit, WorksWithoutMoreThreads) {
  std::array<std::atomic<int>, 9> done = {};
  const NoThreads none;
  EXPECT_THAT(ForEachUnit(done.size(), /*at_once=*/4, /*room_bytes=*/64,
                          /*service=*/nullptr,
                          [&](size_t unit, absl::Span<std::byte> room) {
                            EXPECT_EQ(room.size(), 64u);
                            ++done[unit];
                            return absl::OkStatus();
                          }),
              IsOk());
  for (const auto& times : done) EXPECT_EQ(times, 1);
}

}  // namespace
}  // namespace quantd::checkpoint
