#include "kernels/device/health/self_test.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "fmt/format.h"
#include "kernels/device/budget.h"
#include "kernels/device/devices.h"
#include "kernels/device/health/fault_backend.h"
#include "quantd/format.h"

namespace quantd {
namespace {

std::string Source(const std::vector<KnownAnswer>& answers) {
  std::string text =
      "// Written by QUANTD_UPDATE_PAGES=1 build/cpu/tests/kernels/"
      "engine_test.\n"
      "#include \"kernels/device/health/self_test.h\"\n\nnamespace quantd {\n\n"
      "absl::Span<const KnownAnswer> KnownAnswers() {\n"
      "  static const KnownAnswer kAnswers[] = {\n";
  for (const KnownAnswer& a : answers) {
    text += fmt::format("      {{\"{}\", {:#018x}}},\n", a.name, a.fingerprint);
  }
  return text + "  };\n  return kAnswers;\n}\n\n}  // namespace quantd\n";
}

TEST(SelfTestTest, TheKnownAnswersAreThoseOfTheCpu) {
  const auto cpu = OpenBackend("cpu:0", {.isa = "baseline"});
  ASSERT_TRUE(cpu.ok());
  const auto answers = RunKnownJobs(**cpu);
  ASSERT_TRUE(answers.ok()) << answers.status();
  if (std::getenv("QUANTD_UPDATE_PAGES") != nullptr) {
    std::ofstream(QUANTD_KNOWN_ANSWERS) << Source(*answers);
  }
  std::stringstream file;
  file << std::ifstream(QUANTD_KNOWN_ANSWERS).rdbuf();
  EXPECT_EQ(file.str(), Source(*answers)) << "stale: QUANTD_UPDATE_PAGES=1";
}

TEST(SelfTestTest, EveryInstructionSetPassesInItsShareOfMemory) {
  for (const std::string& isa : ListCpuIsas()) {
    const auto cpu = OpenBackend(
        "cpu:0",
        {.memory_limit = kSelfTestBytes, .slots = 1, .threads = 2, .isa = isa});
    ASSERT_TRUE(cpu.ok());
    EXPECT_TRUE(SelfTest(**cpu).ok()) << isa << SelfTest(**cpu);
  }
}

TEST(SelfTestTest, KnownJobsCoverEveryFormat) {
  std::set<std::string> names;
  for (const KnownAnswer& answer : KnownAnswers()) {
    EXPECT_TRUE(names.insert(answer.name).second) << answer.name;
  }
  for (const FormatSpec& spec : kFormats) {
    EXPECT_TRUE(names.contains(std::string(spec.name))) << spec.name;
  }
}

TEST(SelfTestTest, OneWrongBitInAnyJobIsFound) {
  const size_t jobs = KnownAnswers().size();
  for (size_t i = 1; i <= jobs; ++i) {
    auto control = std::make_shared<FaultControl>();
    const auto device =
        MakeFaultBackend("fault:cpu:0", *OpenBackend("cpu:0"), control);
    // Makes that job and all later ones wrong: the first is named.
    control->Arrange({{InjectedFault::kWrong, i}});
    const absl::Status status = SelfTest(*device);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_NE(std::string(status.message()).find(KnownAnswers()[i - 1].name),
              std::string::npos)
        << status;
  }
}

TEST(SelfTestTest, ReturnsTheDevicesErrorAndSkipsFakeDevices) {
  const auto broken = OpenBackend("fault:cpu:0:sticky@3");
  ASSERT_TRUE(broken.ok());
  EXPECT_TRUE(absl::IsUnavailable(SelfTest(**broken)));
  const auto memcpy = OpenBackend("memcpy");
  ASSERT_TRUE(memcpy.ok());
  EXPECT_TRUE(SelfTest(**memcpy).ok());
  EXPECT_EQ((*memcpy)->stats().jobs, 0u);
}

}  // namespace
}  // namespace quantd
