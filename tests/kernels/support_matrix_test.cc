// The README's support matrix is the one the plan judges by. To bring the
// README up to date: QUANTD_UPDATE_README=1 support_matrix_test
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "fmt/format.h"
#include "kernels/support.h"

namespace quantd {
namespace {

constexpr char kStart[] = "<!-- support matrix: generated -->\n";
constexpr char kEnd[] = "<!-- end of support matrix -->\n";

TEST(SupportMatrix, IsThatOfTheReadme) {
  std::ifstream in(QUANTD_README);
  std::string readme((std::istreambuf_iterator<char>(in)),
                     std::istreambuf_iterator<char>());
  const size_t start = readme.find(kStart);
  const size_t end = readme.find(kEnd);
  ASSERT_NE(start, std::string::npos) << "no " << kStart << QUANTD_README;
  ASSERT_NE(end, std::string::npos) << "no " << kEnd << QUANTD_README;
  const size_t from = start + sizeof kStart - 1;
  ASSERT_LE(from, end);
  const std::string matrix = fmt::format("\n{}\n", SupportMatrix());
  if (std::getenv("QUANTD_UPDATE_README") != nullptr) {
    readme.replace(from, end - from, matrix);
    std::ofstream out(QUANTD_README, std::ios::trunc);
    out << readme;
    ASSERT_TRUE(out.flush());
    return;
  }
  EXPECT_EQ(readme.substr(from, end - from), matrix)
      << "run this test with QUANTD_UPDATE_README=1";
}

}  // namespace
}  // namespace quantd
