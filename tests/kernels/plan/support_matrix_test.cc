// The support matrix of the wire's page is the one the plan judges by. To bring
// it up to date: QUANTD_UPDATE_PAGES=1 support_matrix_test
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "fmt/format.h"
#include "kernels/plan/support.h"

namespace quantd {
namespace {

constexpr char kStart[] = "<!-- support matrix: generated -->\n";
constexpr char kEnd[] = "<!-- end of support matrix -->\n";

TEST(SupportMatrixTest, IsThatOfThePage) {
  const char* const path = QUANTD_WIRE_PAGE;
  std::ifstream in(path);
  std::string page((std::istreambuf_iterator<char>(in)),
                   std::istreambuf_iterator<char>());
  const size_t start = page.find(kStart);
  const size_t end = page.find(kEnd);
  ASSERT_NE(start, std::string::npos) << "no " << kStart << path;
  ASSERT_NE(end, std::string::npos) << "no " << kEnd << path;
  const size_t from = start + sizeof kStart - 1;
  ASSERT_LE(from, end);
  const std::string matrix = fmt::format("\n{}\n", SupportMatrix());
  if (std::getenv("QUANTD_UPDATE_PAGES") != nullptr) {
    page.replace(from, end - from, matrix);
    std::ofstream out(path, std::ios::trunc);
    out << page;
    ASSERT_TRUE(out.flush());
    return;
  }
  EXPECT_EQ(page.substr(from, end - from), matrix)
      << "run this test with QUANTD_UPDATE_PAGES=1";
}

}  // namespace
}  // namespace quantd
