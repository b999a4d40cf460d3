#include "server/net/reader_count.h"

#include <gtest/gtest.h>

namespace quantd {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(20);

// One thread delivers.
void LookOften(ReaderCount& readers, int times, absl::Duration used) {
  for (int i = 0; i < times; ++i) {
    readers.Adjust(1 + readers.count(), used, kLook);
  }
}

TEST(ReaderCountTest, NoneReadsWhereOneThreadIsEnough) {
  ReaderCount readers(2);
  LookOften(readers, 100, kLook * 0.8);
  EXPECT_EQ(readers.count(), 0);
}

TEST(ReaderCountTest, OneMoreReadsWhileAllAreBusyUntilThereAreNoMore) {
  ReaderCount readers(2);
  LookOften(readers, 1, kLook * 0.95);
  EXPECT_EQ(readers.count(), 1);
  // Of two threads one is busy.
  LookOften(readers, 1, kLook * 0.95);
  EXPECT_EQ(readers.count(), 1);
  LookOften(readers, 1, kLook * 1.9);
  EXPECT_EQ(readers.count(), 2);
  LookOften(readers, 5, kLook * 3);
  EXPECT_EQ(readers.count(), 2);
}

TEST(ReaderCountTest, OneLessReadsAfterAWhileOfCalm) {
  ReaderCount readers(2);
  LookOften(readers, 2, kLook * 3);
  ASSERT_EQ(readers.count(), 2);
  LookOften(readers, 5, absl::ZeroDuration());
  LookOften(readers, 1, kLook * 1.5);
  LookOften(readers, 9, absl::ZeroDuration());
  EXPECT_EQ(readers.count(), 2) << "a moment is no while";
  LookOften(readers, 1, absl::ZeroDuration());
  EXPECT_EQ(readers.count(), 1);
  LookOften(readers, 100, absl::ZeroDuration());
  EXPECT_EQ(readers.count(), 0);
}

}  // namespace
}  // namespace quantd
