// Tests of files of quantized tensors: every format and option, older versions,
// and inconsistent files.
#include "client/files/quantized_file.h"

#include <nlohmann/json.hpp>

#include "client/files/quantized_description.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "kernels/plan/profile/profile.h"
#include "proto/messages.h"
#include "quantd/quantizer.h"
#include "tests/client/calls.h"
#include "tests/client/temp_dir.h"

namespace quantd {
namespace {

using nlohmann::json;

// Returns those options of q as text that a file keeps. It does not record
// whether the caller gave an amax or a scale.
std::string Kept(QuantizeOptions o, const QuantizedTensor& q) {
  o.rowwise_amax.clear();
  o.columnwise_amax.clear();
  if (!q.options().fp8.scale.empty()) o.fp8.power_of_two.reset();
  o.fp8.scale.clear();
  o.fp8.history.reset();
  o.statistics = false;
  return wire::ToProto(o).DebugString();
}

class QuantizedFiles : public testing::Test {
 protected:
  // Saves and loads a tensor, and compares everything that a file keeps.
  void ExpectKept(const QuantizedTensor& q) {
    const std::string path = dir_ / "q.safetensors";
    ASSERT_THAT(q.Save(path, "a.b"), IsOk());
    ASSERT_OK_AND_ASSIGN(const auto loaded, QuantizedTensor::Load(path));
    EXPECT_EQ(loaded.shape(), q.shape());
    EXPECT_EQ(loaded.dtype(), q.dtype());
    EXPECT_EQ(loaded.format(), q.format());
    EXPECT_EQ(loaded.usage(), q.usage());
    EXPECT_EQ(Kept(loaded.options(), q), Kept(q.options(), q));
    for (const TensorSpec& spec : q.parts()) {
      const bool state = spec.kind == TensorKind::kAmaxHistory ||
                         spec.kind == TensorKind::kNextScale;
      EXPECT_EQ(loaded.part(spec.kind) == nullptr, state) << Name(spec.kind);
      if (state) continue;
      EXPECT_EQ(loaded.part(spec.kind)->group_offsets, spec.group_offsets);
      EXPECT_TRUE(BytesEq(Name(spec.kind), q.bytes(spec.kind),
                          loaded.bytes(spec.kind)));
      const auto address =
          reinterpret_cast<uintptr_t>(loaded.bytes(spec.kind).data());
      EXPECT_EQ(address % SizeOf(spec.dtype), 0u) << Name(spec.kind);
    }
    if (q.usage() != Usage::kNone) {
      EXPECT_THAT(loaded.Dequantize(*client_), IsOk());
    }
  }
  void ExpectKept(const QuantizerConfig& config, const Input& in) {
    ASSERT_OK_AND_ASSIGN(const auto q,
                         Quantizer(client_, config).Quantize(in.desc, in.data));
    ExpectKept(q);
  }

  FakeServer server_;
  const std::shared_ptr<Client> client_ = Connect(server_.target());
  const TempDir dir_;
};

TEST_F(QuantizedFiles, KeepEveryFormat) {
  for (const FormatSpec& f : kFormats) {
    SCOPED_TRACE(f.name);
    QuantizerConfig c;
    c.options.format = f.format;
    c.options.dbias = true;
    c.options.want_amax = true;
    ExpectKept(c, Input({3, 11, 64}));
    // Parts of odd sizes, so that floats are unaligned in the file.
    if (f.scaling == Scaling::kTensor || f.scaling == Scaling::kBlock) {
      ExpectKept(c, Input({3, 7}));
    }
    Input in({40, 64});
    ASSERT_OK_AND_ASSIGN(
        const auto grouped,
        Quantizer(client_, c).QuantizeGroups(in.desc, in.data, {8, 0, 32}));
    ExpectKept(grouped);
  }
}

// Options that decide which parts there are, and their types and shapes.
TEST_F(QuantizedFiles, KeepThePartsOfOptions) {
  Input in({32, 128});
  const auto with = [&](Format format, auto change) {
    SCOPED_TRACE(Name(format));
    QuantizerConfig c;
    c.options.format = format;
    change(c);
    ExpectKept(c, in);
  };
  with(Format::kNvfp4, [](auto& c) {
    c.options.rounding = Rounding::kStochastic;
    c.options.stochastic.seed = ~uint64_t{0};
    c.options.stochastic.seed_offset = 3;
    c.options.shard = {16, 128, 512};
    c.options.form.scale_layout = Layout::kSwizzled;
    c.options.non_finite = NonFinite::kPropagate;
  });
  with(Format::kNvfp4, [](auto& c) {
    c.options.usage = Usage::kRowwise;
    c.options.form.row_scaled = true;
    c.options.nvfp4.four_over_six = FourOverSix::kMse;
    c.options.form.scale_256 = c.options.nvfp4.fast_error = true;
    c.options.rowwise_amax.assign(32, 1.0f);
  });
  with(Format::kNvfp4Square,
       [](auto& c) { c.options.form.compact_scales = true; });
  with(Format::kFp8E5M2, [](auto& c) {
    c.options.fp8.scale = {8};
    c.options.fp8.history = HistoryOptions{{1, 2, 3}};
    c.options.dbias = true;
    c.options.dbias_dtype = DType::kF16;
  });
  with(Format::kNvfp4, [](auto& c) {
    c.options.usage = Usage::kNone;
    c.options.dbias = c.options.want_amax = true;
  });
}

// Sets every field of the message that a description keeps to another value
// than its default.
void Fill(google::protobuf::Message* m) {
  using google::protobuf::FieldDescriptor;
  const auto& values = *m->GetReflection();
  for (int i = 0; i < m->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = m->GetDescriptor()->field(i);
    const std::string name(field->name());
    if (name == "given_amax" || name == "scale" || name == "history" ||
        name == "statistics") {
      continue;
    }
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        Fill(values.MutableMessage(m, field));
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        values.SetBool(m, field, true);
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        values.SetFloat(m, field, 0.1f);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        values.SetEnumValue(m, field, field->enum_type()->value_count() - 1);
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        values.SetUInt32(m, field, 32);
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        values.SetUInt64(m, field, ~uint64_t{0});
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        field->is_repeated() ? values.AddInt64(m, field, 7)
                             : values.SetInt64(m, field, 64);
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        values.SetString(m, field, "abcd");
        break;
      default:
        ADD_FAILURE() << name;
    }
  }
}

// A new option that is not kept in files fails here.
TEST(Description, KeepsEveryFieldOfTheOptions) {
  v1::QuantizeOptions all;
  Fill(&all);
  const auto options = wire::FromProto(all);
  ASSERT_THAT(options, IsOk());
  ASSERT_OK_AND_ASSIGN(const auto again,
                       client::ParseDescription(client::Describe(
                           {{DType::kBF16, {7, 32}}, *options})));
  EXPECT_EQ(wire::ToProto(again.options).DebugString(), all.DebugString());
}

// The metadata also name the library whose bytes the file has. Their
// quantd.version is one that older programs refuse, because they would decode
// the bytes differently.
TEST_F(QuantizedFiles, KeepEveryProfile) {
  for (const ProfileSpec& spec : Profiles()) {
    for (const ProfileFormat& f : spec.formats) {
      if (f.format == Format::kUnspecified) continue;
      SCOPED_TRACE(std::string(spec.name) + " " + std::string(Name(f.format)));
      QuantizerConfig c;
      c.options.format = f.format;
      c.options.usage = Usage::kRowwise;
      c.options.profile = spec.profile;
      Input in({40, 64});
      ExpectKept(c, in);
      ASSERT_OK_AND_ASSIGN(const auto q,
                           Quantizer(client_, c).Quantize(in.desc, in.data));
      const std::string path = dir_ / "profile.safetensors";
      ASSERT_THAT(q.Save(path), IsOk());
      ASSERT_OK_AND_ASSIGN(const auto file, safetensors::File::Open(path));
      EXPECT_EQ(file.metadata().at("quantd.numerics"), spec.name);
      EXPECT_EQ(file.metadata().at("quantd.version"), "3");
    }
  }
  QuantizerConfig plain;
  Input in({32, 64});
  ASSERT_OK_AND_ASSIGN(const auto q,
                       Quantizer(client_, plain).Quantize(in.desc, in.data));
  const std::string path = dir_ / "plain.safetensors";
  ASSERT_THAT(q.Save(path), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto file, safetensors::File::Open(path));
  EXPECT_EQ(file.metadata().at("quantd.numerics"), "te");
  EXPECT_EQ(file.metadata().at("quantd.version"), "2");
}

// Loads a file of version 1, given byte for byte, of a 2 x 16 tensor.
TEST_F(QuantizedFiles, VersionOneStillLoads) {
  const std::string path = dir_ / "old.safetensors";
  constexpr char kDescription[] =
      R"({"dtype":"f32","flatten_axis":-1,"format":"nvfp4",)"
      R"("non_finite":"ignore","rht":{"columnwise":false,"dimension":16,)"
      R"("rowwise":true,"sign_mask":"0xD7E8"},"scale_layout":"linear",)"
      R"("shape":[2,16],"usage":"rowwise"})";
  ASSERT_OK_AND_ASSIGN(
      auto writer,
      safetensors::Writer::Create(
          path,
          {{"w.rowwise_data", "U8", {2, 8}, 0, 16},
           {"w.rowwise_scale", "F8_E4M3", {128, 4}, 0, 512},
           {"w.rowwise_amax", "F32", {1}, 0, 4}},
          {{"quantd.version", "1"}, {"quantd.tensor.w", kDescription}}));
  const std::vector<std::byte> codes(16, std::byte{0x21});
  const std::vector<std::byte> scales(512, std::byte{0x38});
  const float amax = 3;
  ASSERT_THAT(writer.Append("w.rowwise_data", codes), IsOk());
  ASSERT_THAT(writer.Append("w.rowwise_scale", scales), IsOk());
  ASSERT_THAT(
      writer.Append("w.rowwise_amax",
                    {reinterpret_cast<const std::byte*>(&amax), sizeof amax}),
      IsOk());
  ASSERT_THAT(writer.Commit(), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto q, QuantizedTensor::Load(path));
  EXPECT_EQ(q.format(), Format::kNvfp4);
  EXPECT_TRUE(q.rowwise()->rotated);
  EXPECT_THAT(q.rowwise()->amax, testing::ElementsAre(3.0f));
  EXPECT_EQ(q.rowwise()->scale_layout, Layout::kLinear);
  EXPECT_EQ(q.options().rounding, Rounding::kNearest);
  EXPECT_EQ(q.options().rht.sign_mask, kDefaultSignMask);
  EXPECT_THAT(q.Dequantize(*client_), IsOk());
}

TEST_F(QuantizedFiles, RefuseInconsistentOptions) {
  Input in({32, 128});
  QuantizerConfig c;
  c.options.format = Format::kMxfp4;
  c.options.rounding = Rounding::kStochastic;
  ASSERT_OK_AND_ASSIGN(
      const auto q,
      Quantizer(client_, c).QuantizeGroups(in.desc, in.data, {8, 0, 24}));
  const std::string path = dir_ / "q.safetensors";
  ASSERT_THAT(q.Save(path, "t"), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto file, safetensors::File::Open(path));
  const json good = json::parse(file.metadata().at("quantd.tensor.t"));
  const auto status_of = [&](const json& description) {
    std::vector<safetensors::Tensor> parts = file.tensors();
    auto writer = safetensors::Writer::Create(
        dir_ / "bad.safetensors", parts,
        {{"quantd.version", "2"}, {"quantd.tensor.t", description.dump()}});
    for (const safetensors::Tensor& t : parts) {
      std::vector<std::byte> bytes(t.size);
      EXPECT_THAT(file.Read(t, 0, absl::MakeSpan(bytes)), IsOk());
      EXPECT_THAT(writer->Append(t.name, bytes), IsOk());
    }
    EXPECT_THAT(writer->Commit(), IsOk());
    return QuantizedTensor::Load(dir_ / "bad.safetensors").status();
  };
  EXPECT_THAT(status_of(good), IsOk());
  const std::vector<std::pair<const char*, json>> changes = {
      {"splits", {8, 1, 23}},
      {"splits", {8, 0, -24}},
      {"splits", "8"},
      {"splits", {8, 0}},
      {"rounding", "sideways"},
      {"rounding", 1},
      {"seed", -1},
      {"seed", 1.5},
      {"seed", "7"},
      {"shard", {1, 2}},
      {"scale_layout", "spiral"},
      {"scale_layout", nullptr},
      {"compact_scales", true},
      {"compact_scales", 1},
      {"row_scaled", true},
      {"scale_256", true},
      {"four_over_six", "best"},
      {"scale_rule", "left"},
      {"power_of_two", true},
      {"epsilon", 1e300},
      {"epsilon", "1"},
      {"amax_estimation_scale", 2},
      {"dbias", "e4m3"},
      {"dbias", "f32"},
      {"amax", true},
      {"format", "mxfp8_e4m3"},
      {"format", "mxfp6"},
      {"rht",
       {{"rowwise", true},
        {"columnwise", true},
        {"dimension", 64},
        {"sign_mask", "0x0000000000000000"}}},
      {"rht",
       {{"rowwise", false},
        {"columnwise", false},
        {"dimension", 1024},
        {"sign_mask", "0xD7E8"}}},
  };
  for (const auto& [key, value] : changes) {
    json bad = good;
    bad[key] = value;
    EXPECT_THAT(status_of(bad), StatusIs(absl::StatusCode::kInvalidArgument))
        << key << " " << value;
  }
  // An unknown key is ignored.
  json newer = good;
  newer["colour"] = "blue";
  EXPECT_THAT(status_of(newer), IsOk());
}

}  // namespace
}  // namespace quantd
