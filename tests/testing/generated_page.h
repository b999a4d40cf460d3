// Parts of pages that are generated from the code: a test fails while one is
// out of date, and rewrites it if QUANTD_UPDATE_PAGES is set.
#ifndef QUANTD_TESTS_TESTING_GENERATED_PAGE_H_
#define QUANTD_TESTS_TESTING_GENERATED_PAGE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace quantd {

// Expects `part` between "<!-- NAME: generated -->" and "<!-- end of NAME -->",
// each on its own line.
inline void ExpectGenerated(const std::string& path, const std::string& name,
                            const std::string& part) {
  std::ifstream in(path);
  std::string page((std::istreambuf_iterator<char>(in)),
                   std::istreambuf_iterator<char>());
  const std::string begin = "<!-- " + name + ": generated -->\n";
  const size_t start = page.find(begin);
  const size_t end = page.find("<!-- end of " + name + " -->\n");
  ASSERT_NE(start, std::string::npos)
      << "no beginning of " << name << " in " << path;
  ASSERT_NE(end, std::string::npos) << "no end of " << name << " in " << path;
  const size_t from = start + begin.size();
  ASSERT_LE(from, end);
  if (std::getenv("QUANTD_UPDATE_PAGES") != nullptr) {
    page.replace(from, end - from, part);
    std::ofstream out(path, std::ios::trunc);
    out << page;
    ASSERT_TRUE(out.flush());
    return;
  }
  EXPECT_EQ(page.substr(from, end - from), part)
      << "run this test with QUANTD_UPDATE_PAGES=1";
}

}  // namespace quantd

#endif  // QUANTD_TESTS_TESTING_GENERATED_PAGE_H_
