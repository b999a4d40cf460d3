// The support matrix of the wire's page is the one the plan judges by. To bring
// it up to date: QUANTD_UPDATE_PAGES=1 support_matrix_test
#include <gtest/gtest.h>

#include "fmt/format.h"
#include "kernels/plan/support.h"
#include "tests/testing/generated_page.h"

namespace quantd {
namespace {

TEST(SupportMatrixTest, IsThatOfThePage) {
  ExpectGenerated(QUANTD_WIRE_PAGE, "support matrix",
                  fmt::format("\n{}\n", SupportMatrix()));
}

}  // namespace
}  // namespace quantd
