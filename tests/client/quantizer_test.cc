// Tests of Quantizer and QuantizedTensor with a fake server, and of the files
// they write.
#include "quantd/quantizer.h"

#include <cstring>

#include "client/files/quantized_file.h"
#include "client/files/sign_mask_text.h"
#include "tests/client/calls.h"
#include "tests/client/temp_dir.h"

namespace quantd {
namespace {

// The recipe for gradients, in which columnwise data are rotated.
QuantizerConfig Rotating() {
  QuantizerConfig config;
  config.options.rht.columnwise = true;
  return config;
}

TEST(Quantizer, TranslatesItsConfiguration) {
  FakeServer server;
  const std::shared_ptr<Client> client = Connect(server.target());
  Quantizer quantizer(client, Rotating());
  auto options = quantizer.options();
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->usage, Usage::kBoth);
  EXPECT_TRUE(options->rht.columnwise);
  EXPECT_FALSE(options->rht.rowwise);
  quantizer.set_usage(std::nullopt, false);
  EXPECT_EQ(quantizer.options()->usage, Usage::kRowwise);
  // The rotation takes effect only when columnwise data are requested.
  EXPECT_FALSE(quantizer.options()->rht.columnwise);
  quantizer.set_usage(false, true);
  EXPECT_EQ(quantizer.options()->usage, Usage::kColumnwise);
  EXPECT_TRUE(quantizer.options()->rht.columnwise);
  quantizer.set_amax({}, {2.0f});
  EXPECT_THAT(quantizer.options()->columnwise_amax, testing::ElementsAre(2.0f));
  quantizer.set_usage(false, false);
  EXPECT_EQ(FieldOf(quantizer.options().status()), "usage");
  Quantizer odd(client, {.block_dims = {2, 16}});
  EXPECT_EQ(FieldOf(odd.options().status()), "block_dims");
  const std::vector<float> x(64, 1.0f);
  EXPECT_EQ(FieldOf(odd.Quantize(x, {2, 32}).status()), "block_dims");
  EXPECT_EQ(server.calls(), 0);
}

TEST(Quantizer, BlockDimsSelectTheFormat) {
  FakeServer server;
  const std::shared_ptr<Client> client = Connect(server.target());
  const auto format = [&](Format f, std::array<int, 2> dims) {
    QuantizerConfig c;
    c.options.format = f;
    c.block_dims = dims;
    const auto o = Quantizer(client, c).options();
    return o.ok() ? std::string(Name(o->format)) : FieldOf(o.status());
  };
  EXPECT_EQ(format(Format::kNvfp4, {0, 0}), "nvfp4");
  EXPECT_EQ(format(Format::kNvfp4, {16, 16}), "nvfp4_2d");
  EXPECT_EQ(format(Format::kNvfp4Square, {1, 16}), "nvfp4");
  EXPECT_EQ(format(Format::kNvfp4Square, {0, 0}), "nvfp4_2d");
  EXPECT_EQ(format(Format::kMxfp8E5M2, {1, 32}), "mxfp8_e5m2");
  EXPECT_EQ(format(Format::kFp8BlockE5M2, {128, 128}), "fp8_block_2d_e5m2");
  EXPECT_EQ(format(Format::kFp8SquareE4M3, {1, 128}), "fp8_block_e4m3");
  EXPECT_EQ(format(Format::kMxfp8E4M3, {1, 16}), "block_dims");
  EXPECT_EQ(format(Format::kFp8E4M3, {1, 128}), "block_dims");
  EXPECT_EQ(format(Format::kNvfp4, {1, 32}), "block_dims");
}

TEST(Quantizer, Fp8DTypeSelectsTheFormat) {
  FakeServer server;
  const std::shared_ptr<Client> client = Connect(server.target());
  const auto format = [&](Format f, DType type,
                          std::array<int, 2> dims = {0, 0}) {
    QuantizerConfig c;
    c.options.format = f;
    c.block_dims = dims;
    c.fp8_dtype = type;
    const auto o = Quantizer(client, c).options();
    return o.ok() ? std::string(Name(o->format))
                  : std::string(o.status().message());
  };
  EXPECT_EQ(format(Format::kFp8E4M3, DType::kE5M2), "fp8_e5m2");
  EXPECT_EQ(format(Format::kFp8E5M2, DType::kE4M3), "fp8_e4m3");
  EXPECT_EQ(format(Format::kMxfp8E4M3, DType::kE5M2), "mxfp8_e5m2");
  EXPECT_EQ(format(Format::kFp8SquareE4M3, DType::kE5M2), "fp8_block_2d_e5m2");
  EXPECT_EQ(format(Format::kFp8SquareE4M3, DType::kE5M2, {1, 128}),
            "fp8_block_e5m2");
  EXPECT_EQ(format(Format::kNvfp4, DType::kE4M3), "nvfp4");
  EXPECT_EQ(format(Format::kNvfp4, DType::kE4M3, {16, 16}), "nvfp4_2d");
  EXPECT_EQ(format(Format::kNvfp4, DType::kE5M2),
            "fp8_dtype: expected e4m3 or none with nvfp4, got e5m2");
  EXPECT_EQ(format(Format::kMxfp4, DType::kE4M3),
            "fp8_dtype: expected none with mxfp4, got e4m3");
  EXPECT_EQ(format(Format::kMxfp8E4M3, DType::kBF16),
            "fp8_dtype: expected e4m3 or e5m2 or none with mxfp8_e4m3, got "
            "bf16");
  for (std::string_view name : {"e4m3", "float8_e4m3fn", "kFloat8E4M3"}) {
    EXPECT_EQ(Fp8DTypeFromName(name), DType::kE4M3) << name;
  }
  for (std::string_view name : {"e5m2", "float8_e5m2", "kFloat8E5M2"}) {
    EXPECT_EQ(Fp8DTypeFromName(name), DType::kE5M2) << name;
  }
  for (std::string_view name : {"", "bf16", "float8_e4m3", "float8_e4m3fnuz"}) {
    EXPECT_EQ(Fp8DTypeFromName(name), std::nullopt) << name;
  }
}

TEST(QuantizedTensor, HasTheRequestedCopies) {
  FakeServer server;
  const std::shared_ptr<Client> client = Connect(server.target());
  Quantizer quantizer(client, Rotating());
  const std::vector<float> x(20 * 32, 1.0f);
  const auto q = quantizer.Quantize(x, {4, 5, 32});
  ASSERT_THAT(q, IsOk());
  EXPECT_EQ(q->shape(), (std::vector<int64_t>{4, 5, 32}));
  EXPECT_EQ(q->dtype(), DType::kF32);
  EXPECT_EQ(q->original_size_bytes(), x.size() * 4);
  const auto row = q->rowwise();
  const auto column = q->columnwise();
  ASSERT_TRUE(row && column);
  EXPECT_EQ(row->data_shape, (std::vector<int64_t>{20, 16}));
  EXPECT_EQ(row->scale_shape, (std::vector<int64_t>{128, 4}));
  EXPECT_EQ(column->data_shape, (std::vector<int64_t>{32, 16}));
  EXPECT_FALSE(row->rotated);
  EXPECT_TRUE(column->rotated);
  EXPECT_EQ(q->size_bytes(), 20u * 16 + 512 + 4 + 32 * 16 + 512 + 4);

  const auto decoded = q->Dequantize(*client);
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(decoded->part(TensorKind::kDequantized)->dtype, DType::kF32);
  EXPECT_THAT(q->DequantizeCopy(*client, Usage::kColumnwise, DType::kBF16),
              IsOk());
  quantizer.set_usage(true, false);
  const auto one = quantizer.Quantize(x, {4, 5, 32});
  ASSERT_THAT(one, IsOk());
  EXPECT_FALSE(one->columnwise().has_value());
  EXPECT_EQ(FieldOf(one->DequantizeCopy(*client, Usage::kColumnwise).status()),
            "usage");
  EXPECT_EQ(FieldOf(one->DequantizeCopy(*client, Usage::kBoth).status()),
            "usage");
}

// QuantizedFiles tests that a file keeps the whole tensor.
TEST(QuantizedTensor, LoadsByName) {
  FakeServer server;
  const TempDir dir;
  Quantizer quantizer(Connect(server.target()), Rotating());
  const std::vector<float> x(20 * 32, 1.0f);
  const auto q = quantizer.Quantize(x, {4, 5, 32});
  ASSERT_THAT(q, IsOk());
  const std::string path = dir / "q.safetensors";
  ASSERT_THAT(q->Save(path, "layer.0"), IsOk());
  for (const char* name : {"", "layer.0"}) {
    const auto loaded = QuantizedTensor::Load(path, name);
    ASSERT_THAT(loaded, IsOk());
    EXPECT_EQ(loaded->shape(), q->shape());
    EXPECT_TRUE(loaded->columnwise()->rotated);
  }
  EXPECT_THAT(QuantizedTensor::Load(path, "other"),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(QuantizedTensor::Load(dir / "none"),
              StatusIs(absl::StatusCode::kNotFound));
  // A copy outlives the original.
  auto keep = *QuantizedTensor::Load(path);
  const QuantizedTensor copy = keep;
  keep = *q;
  EXPECT_EQ(copy.rowwise()->data.size(), 20u * 16);
}

TEST(QuantizedTensor, RefusesInconsistentFiles) {
  FakeServer server;
  const std::shared_ptr<Client> client = Connect(server.target());
  const TempDir dir;
  const std::string path = dir / "q.safetensors";
  const std::vector<float> x(16 * 32, 1.0f);
  Quantizer quantizer(client);
  quantizer.set_usage(true, false);
  const auto q = quantizer.Quantize(x, {16, 32});
  ASSERT_THAT(q, IsOk());
  ASSERT_THAT(q->Save(path, "t"), IsOk());
  const std::string good = ReadFile(path);
  // Replacements have the length of the original text, so the header keeps its
  // size.
  const std::pair<const char*, const char*> changes[] = {
      {"quantd.version\":\"2", "quantd.version\":\"4"},
      {"quantd.version", "quantd.versiom"},
      {"\\\"shape\\\":[16,32]", "\\\"shape\\\":[32,16]"},
      {"\\\"shape\\\":[16,32]", "\\\"shape\\\":[16,-2]"},
      {"\\\"shape\\\":[16,32]", "\\\"shape\\\":[16,9.]"},
      {"\\\"shape\\\":[16,32]", "\\\"shapf\\\":[16,32]"},
      {"rowwise\\\"", "rowwisf\\\""},
      {"0xD7E8", "0xD7G8"},
      {"\\\"flatten_axis\\\":-1", "\\\"flatten_axis\\\":-9"},
      {"t.rowwise_scale", "t.rowwise_scalf"},
      {"F8_E4M3", "F8_E5M2"},
      {"quantd.tensor.t", "quantd.tensor.u"},
      {"\\\"f32\\\"", "\\\"e43\\\""},
  };
  for (const auto& [from, to] : changes) {
    std::string bad = good;
    const size_t at = bad.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    bad.replace(at, std::strlen(from), to);
    WriteFile(path, bad);
    EXPECT_THAT(QuantizedTensor::Load(path),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << from << " -> " << to;
  }
  for (size_t n = 0; n < good.size(); n += 3) {
    WriteFile(path, good.substr(0, n));
    EXPECT_FALSE(QuantizedTensor::Load(path).ok()) << n;
  }
}

TEST(SignMask, ReadsAndWritesHex) {
  EXPECT_EQ(SignMaskToHex(kDefaultSignMask, 16), "0xD7E8");
  for (const char* text : {"0xD7E8", "d7e8", "0XD7e8"}) {
    ASSERT_TRUE(SignMaskFromHex(text, 16).has_value()) << text;
    EXPECT_EQ(*SignMaskFromHex(text, 16), kDefaultSignMask);
  }
  EXPECT_EQ(SignMaskFromHex("1", 16)->words[0], 1u);
  for (const char* text : {"", "0x", "0x12345", "xyz", "-1", "0x 1"}) {
    EXPECT_FALSE(SignMaskFromHex(text, 16).has_value()) << text;
  }
}

}  // namespace
}  // namespace quantd
