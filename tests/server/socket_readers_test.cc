#include "server/net/socket_readers.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace quantd {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(20);

// What the readers themselves use here is next to nothing.
void LookOften(SocketReaders& readers, int times, absl::Duration used) {
  for (int i = 0; i < times; ++i) readers.Adjust(1, used, kLook);
}

TEST(SocketReadersTest, NoneReadsWhereOneThreadIsEnough) {
  SocketReaders readers(2);
  LookOften(readers, 100, kLook * 0.8);
  EXPECT_EQ(readers.active(), 0);
}

TEST(SocketReadersTest, OneMoreReadsWhileAllAreBusyUntilThereAreNoMore) {
  SocketReaders readers(2);
  LookOften(readers, 1, kLook * 0.95);
  EXPECT_EQ(readers.active(), 1);
  // Of two threads one is busy.
  LookOften(readers, 1, kLook * 0.95);
  EXPECT_EQ(readers.active(), 1);
  LookOften(readers, 1, kLook * 1.9);
  EXPECT_EQ(readers.active(), 2);
  LookOften(readers, 5, kLook * 3);
  EXPECT_EQ(readers.active(), 2);
}

TEST(SocketReadersTest, OneLessReadsAfterAWhileOfCalm) {
  SocketReaders readers(2);
  LookOften(readers, 2, kLook * 3);
  ASSERT_EQ(readers.active(), 2);
  LookOften(readers, 5, absl::ZeroDuration());
  LookOften(readers, 1, kLook * 1.5);
  LookOften(readers, 9, absl::ZeroDuration());
  EXPECT_EQ(readers.active(), 2) << "a moment is no while";
  LookOften(readers, 1, absl::ZeroDuration());
  EXPECT_EQ(readers.active(), 1);
  LookOften(readers, 100, absl::ZeroDuration());
  EXPECT_EQ(readers.active(), 0);
}

TEST(SocketReadersTest, EndsAtOnceWhetherTheyReadOrNot) {
  for (const double used : {0.0, 3.0}) {
    const absl::Time begin = absl::Now();
    {
      SocketReaders readers(3);
      LookOften(readers, 3, kLook * used);
    }
    EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
  }
}

}  // namespace
}  // namespace quantd
