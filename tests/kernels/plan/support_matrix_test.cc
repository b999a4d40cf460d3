// The support matrix in proto/WIRE.md equals the table that plans use. To
// update it: QUANTD_UPDATE_PAGES=1 support_matrix_test
#include <gtest/gtest.h>

#include "fmt/format.h"
#include "kernels/plan/support.h"
#include "tests/testing/generated_page.h"

namespace quantd {
namespace {

TEST(SupportMatrixTest, EqualsTheOneOnThePage) {
  ExpectGenerated(QUANTD_WIRE_PAGE, "support matrix",
                  fmt::format("\n{}\n", SupportMatrix()));
}

}  // namespace
}  // namespace quantd
