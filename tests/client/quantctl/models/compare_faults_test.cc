// Tests that compare names small faults of converted models.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "tests/client/quantctl/convert_fixture.h"

namespace quantd {
namespace {

using testing::HasSubstr;

class CompareFaults : public Convert {
 protected:
  // Converts "m", changes one tensor of the result, and compares.
  Outcome Compare(const char* dialect, const char* format,
                  const std::string& name,
                  const std::function<void(WrittenTensor&)>& spoil) {
    MustConvert("m", "made", {"--dialect", dialect, "--format", format});
    EXPECT_EQ(Run({"compare", At("m"), At("made")}).code, 0);
    const auto made = checkpoint::Model::Open(At("made"));
    EXPECT_THAT(made, IsOk());
    std::vector<WrittenTensor> tensors;
    for (const auto& t : made->tensors()) {
      tensors.push_back(
          {t.name(), t.stored.dtype, t.stored.shape, BytesOf(*made, &t)});
      if (t.name() == name) spoil(tensors.back());
    }
    WriteModel(Fresh("spoilt"),
               ModelJson::parse(ReadFile(At("made/config.json"))), {tensors});
    return Run({"compare", At("m"), At("spoilt")});
  }
};

constexpr char kDown[] = "model.layers.0.mlp.down_proj.weight";

TEST_F(CompareFaults, NamesRowsFarBelowTheOthers) {
  WriteModel(Fresh("m"), LlamaConfig(), {{Bf16(kDown, {512, 512})}});
  const auto roll = [](WrittenTensor& t) {
    std::rotate(t.bytes.begin(), t.bytes.begin() + 4, t.bytes.end());
  };
  const auto transpose = [](WrittenTensor& t) {
    const std::vector<std::byte> before = t.bytes;
    for (size_t i = 0; i < before.size(); ++i) {
      const size_t at = i / 4;
      t.bytes[i] = before[(at % 4 * 4 + at / 4) * 4 + i % 4];
    }
  };
  // Codes of row 7.
  const auto empty = [](WrittenTensor& t) {
    const auto row = static_cast<ptrdiff_t>(t.bytes.size() / 512);
    std::fill_n(t.bytes.begin() + 7 * row, row, std::byte{0});
  };
  const std::string name = kDown;
  for (const auto& [dialect, format, part, spoil, says] :
       {std::tuple{"compressed-tensors", "fp8_dynamic", name + "_scale",
                   std::function<void(WrittenTensor&)>(roll), " in row "},
        {"deepseek", "fp8_block", name + "_scale_inv", transpose,
         "do not fit the codes"},
        {"compressed-tensors", "nvfp4", name + "_packed", empty,
         "0.00 dB in row 7, where"},
        {"modelopt", "mxfp8", name, empty, "0.00 dB in row 7, where"}}) {
    SCOPED_TRACE(format);
    EXPECT_THAT(
        Compare(dialect, format, part, spoil),
        Prints(8, testing::AllOf(HasSubstr(std::string("down_proj with ")),
                                 HasSubstr(says))));
    EXPECT_EQ(Run({"compare", At("m"), At("spoilt"), "--fail-below", "5"}).code,
              0);
  }
}

// Correct conversions of any numbers pass, also of rows that are far smaller
// than others, or whose numbers are all as far from the nearest code as
// possible.
TEST_F(CompareFaults, AcceptsRowsOfAnyNumbers) {
  std::vector<WrittenTensor> tensors;
  for (const int kind : {0, 1, 2}) {
    WrittenTensor t = Bf16(
        fmt::format("model.layers.{}.mlp.down_proj.weight", kind), {512, 512});
    for (size_t i = 0; i < 512 * 512; ++i) {
      const size_t row = i / 512;
      const double own = std::exp2(static_cast<double>(row) / 512);
      uint16_t bits = 0;
      std::memcpy(&bits, t.bytes.data() + 2 * i, 2);
      float x = std::bit_cast<float>(uint32_t{bits} << 16);
      if (kind == 0) x *= std::pow(10.0f, -static_cast<float>(row % 11));
      if (kind == 1) x = static_cast<float>(own);
      if (kind == 2) x = static_cast<float>(i % 16 == 0 ? own : own * 5 / 6);
      bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
      std::memcpy(t.bytes.data() + 2 * i, &bits, 2);
    }
    tensors.push_back(std::move(t));
  }
  WriteModel(Fresh("m"), LlamaConfig(), {tensors});
  for (const char* format : {"nvfp4", "nvfp4_4over6", "nvfp4_search", "fp8",
                             "fp8_dynamic", "fp8_block", "mxfp8", "mxfp4"}) {
    MustConvert("m", "made", {"--format", format});
    const Outcome out = Run({"compare", At("m"), At("made")});
    EXPECT_EQ(out.code, 0) << format << "\n" << out.out;
  }
}

TEST_F(CompareFaults, NamesEveryChangeOfTensorsThatAreNotQuantized) {
  const WrittenTensor norm = Bf16("model.norm.weight", {64});
  const WrittenTensor words = Bf16("model.embed_tokens.weight", {32, 64});
  const WrittenTensor down = Bf16(kDown, {128, 128});
  WriteModel(Fresh("m"), LlamaConfig(), {{norm, words, down}});
  const auto one_bit = [](WrittenTensor& t) { t.bytes[40] ^= std::byte{1}; };
  const auto swap = [](WrittenTensor& t) {
    std::swap_ranges(t.bytes.begin(), t.bytes.begin() + 128,
                     t.bytes.begin() + 256);
  };
  EXPECT_THAT(Compare("modelopt", "nvfp4", norm.name, one_bit).out,
              HasSubstr("model.norm with 6"));
  EXPECT_THAT(Compare("compressed-tensors", "fp8", words.name, swap),
              Prints(8, HasSubstr("126 of its numbers changed, although it "
                                  "is not quantized")));
  // Rounding to the nearest number of another type is no change.
  const WrittenTensor wide = {
      norm.name, "F32", {3}, FloatBytes({1.00390625f, 1.0039073f, 3e-6f})};
  for (const auto& [type, numbers] :
       {std::pair{"BF16", std::array<uint16_t, 3>{0x3F80, 0x3F81, 0x3649}},
        std::pair{"F16", std::array<uint16_t, 3>{0x3C04, 0x3C04, 0x0032}}}) {
    WrittenTensor narrow = {norm.name, type, {3}, std::vector<std::byte>(6)};
    std::memcpy(narrow.bytes.data(), numbers.data(), 6);
    WriteModel(Fresh("wide"), LlamaConfig(), {{wide, down}});
    for (const int more : {0, 1}) {
      narrow.bytes[0] ^= std::byte(more);
      WriteModel(Fresh("narrow"), LlamaConfig(), {{narrow, down}});
      EXPECT_EQ(Run({"compare", At("wide"), At("narrow")}).code, 8 * more);
      EXPECT_EQ(Run({"compare", At("narrow"), At("wide")}).code, 8 * more);
    }
  }
}

}  // namespace
}  // namespace quantd
