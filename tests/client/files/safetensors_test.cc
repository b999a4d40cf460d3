#include "client/files/safetensors.h"

#include "tests/client/temp_dir.h"
#include "tests/testing/matchers.h"

namespace quantd::safetensors {
namespace {

using testing::HasSubstr;

std::string FileOf(std::string_view json, std::string_view buffer,
                   std::optional<uint64_t> length = std::nullopt) {
  uint64_t n = length.value_or(json.size());
  std::string out;
  for (int i = 0; i < 8; ++i, n >>= 8) out += static_cast<char>(n & 0xFF);
  out += json;
  out += buffer;
  return out;
}

constexpr char kGood[] =
    R"({"__metadata__":{"format":"pt"},)"
    R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
    R"("e":{"dtype":"F16","shape":[0,9],"data_offsets":[4,4]},)"
    R"("s":{"dtype":"I8","shape":[],"data_offsets":[8,9]},)"
    R"("a":{"shape":[2,1],"data_offsets":[0,4],"dtype":"BF16"}}  )";

std::vector<std::byte> BytesOf(const File& file, const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.size);
  EXPECT_THAT(file.Read(tensor, 0, absl::MakeSpan(bytes)), IsOk());
  return bytes;
}

TEST(Safetensors, ReadsAFile) {
  const TempDir dir;
  const std::string path = dir / "a.safetensors";
  WriteFile(path, FileOf(kGood, "abcdefghi"));
  ASSERT_OK_AND_ASSIGN(const auto file, File::Open(path));
  ASSERT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const Tensor* b = file.Find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->dtype, "F32");
  EXPECT_EQ(static_cast<char>(BytesOf(file, *b)[0]), 'e');
  EXPECT_EQ(file.Find("e")->size, 0u);
  EXPECT_EQ(file.Find("s")->shape.size(), 0u);
  EXPECT_EQ(file.Find("z"), nullptr);
}

TEST(Safetensors, RefusesEveryTruncation) {
  const TempDir dir;
  const std::string path = dir / "a.safetensors";
  const std::string whole = FileOf(kGood, "abcdefghi");
  for (size_t n = 0; n < whole.size(); ++n) {
    WriteFile(path, whole.substr(0, n));
    EXPECT_THAT(File::Open(path), StatusIs(absl::StatusCode::kInvalidArgument))
        << n;
  }
  WriteFile(path, whole + "x");
  EXPECT_THAT(File::Open(path), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(Safetensors, NamesOtherFormatsAndARemedy) {
  using std::string_view_literals::operator""sv;
  const TempDir dir;
  const std::string path = dir / "a.safetensors";
  struct Case {
    std::string_view begins;
    std::vector<const char*> says;
  };
  for (const Case& c : std::vector<Case>{
           {"GGUF\3\0\0\0"sv, {"a GGUF file", "gguf_file=NAME"}},
           {"PK\3\4\0\0\x08\x08"sv, {"a zip archive", "torch.load"}},
           {"\x89HDF\r\n\x1A\n\0"sv, {"an HDF5 file", "save_file"}},
           {"\x80\2\x8A\nl\xFC\x9C\x46\xF9"sv, {"a pickle", "torch.load"}},
           {"\x80\4\x95\x10\0\0\0\0\0"sv, {"a pickle", "save_file"}},
           {"\x08\x07\x12\x07pytorch\x1A\x05"sv, {"an ONNX model", "exported"}},
           {"\x93NUMPY\1\0"sv, {"a NumPy array", ".npy"}},
           {"\x1F\x8B\x08\0\0\0\0\0"sv, {"a gzip archive", "unpack"}},
           {"version https://git-lfs.github.com/spec/v1\noid sha256:a\n"sv,
            {"a Git LFS pointer", "git lfs pull"}},
           {"<!DOCTYPE html><html>"sv,
            {"an HTML or XML page", "fetch the file again"}},
           {"\xEF\xBB\xBF\n <html lang=en>"sv,
            {"an HTML or XML page", "log in"}},
           {"Entry not found"sv, {"text instead of", "\"Entry not found"}},
           {"{\"error\":\"gated\"}\x1B[2J"sv, {"text instead of", "\\u001b["}},
           {"\0\0\0\0\0\0\0\0\0\0"sv, {"zeros", "fetch it again"}}}) {
    SCOPED_TRACE(c.begins);
    WriteFile(path, std::string(c.begins) + std::string(64, '\0'));
    const auto file = File::Open(path);
    for (const char* what : c.says) {
      EXPECT_THAT(file, Refused(HasSubstr(what)));
    }
  }
  // A valid header length whose bytes look like the beginning of a pickle.
  WriteFile(path, FileOf(std::string(0x280, '{'), ""));
  EXPECT_THAT(File::Open(path), Refused(HasSubstr("not JSON")));
}

TEST(Safetensors, ReadsOrRefusesEveryChangedByte) {
  const TempDir dir;
  const std::string path = dir / "a.safetensors";
  const std::string whole = FileOf(kGood, "abcdefghi");
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const int flip : {0x01, 0x10, 0x80, 0xFF}) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      WriteFile(path, changed);
      const auto file = File::Open(path);
      if (!file.ok()) continue;
      size_t total = 0;
      for (const Tensor& t : file->tensors()) {
        total += BytesOf(*file, t).size();
      }
      EXPECT_EQ(total, 9u);
    }
  }
}

struct Bad {
  const char* json;
  size_t buffer;
  const char* says;
};

std::string Entry(const char* fields) {
  return std::string(R"({"t":{)") + fields + "}}";
}

TEST(Safetensors, RefusesMaliciousHeaders) {
  const Bad cases[] = {
      {"", 0, "begin with"},
      {"[]", 0, "begin with"},
      {" {}", 0, "begin with"},
      {"{", 0, "not JSON"},
      {"{}{}", 0, "not JSON"},
      {"{}\x01", 0, "not JSON"},
      {"{\"\xFF\":1}", 0, "not JSON"},
      {R"({"t":1})", 0, "is not allowed here"},
      {R"({"t":null})", 0, "is not allowed here"},
      {R"({"t":true})", 0, "is not allowed here"},
      {R"({"t":"x"})", 0, "is not allowed here"},
      {R"({"t":[1]})", 0, "is not allowed here"},
      {R"({"t":{}})", 0, "needs dtype"},
      {R"({"__metadata__":{"a":1}})", 0, "is not allowed here"},
      {R"({"__metadata__":{"a":{}}})", 0, "is not allowed here"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", 0, "occurs twice"},
      {R"({"__metadata__":[]})", 0, "is not allowed here"},
      {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       2, "occurs twice"},
      {R"({"t":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1, "occurs twice"},
      // Offsets that overlap, leave a hole, or end at a wrong byte.
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "inside another tensor"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
       4, "was expected"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2,
       "was expected"},
      {R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", 8,
       "truncated or its header is wrong"},
      {R"({"a":{"dtype":"U8","shape":[7],"data_offsets":[0,7]}})", 8,
       "follow the last tensor"},
      {"{}", 8, "follow the last tensor"},
  };
  for (const Bad& c : cases) {
    EXPECT_THAT(ParseHeader(c.json, c.buffer), Refused(HasSubstr(c.says)))
        << c.json;
  }
}

TEST(Safetensors, RefusesMaliciousEntries) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("dtype":"U8","shape":[1])", "needs dtype"},
      {R"("dtype":"U8","data_offsets":[0,1])", "needs dtype"},
      {R"("shape":[1],"data_offsets":[0,1])", "needs dtype"},
      {R"("dtype":"U8","shape":[1],"data_offsets":[0])", "needs dtype"},
      {R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])", "more than two"},
      {R"("dtype":"U8","shape":[1],"data_offsets":[1,0])",
       "end before they begin"},
      {R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])", "negative"},
      {R"("dtype":"U8","shape":[1.5],"data_offsets":[0,1])", "whole number"},
      {R"("dtype":"U8","shape":[1e0],"data_offsets":[0,1])", "whole number"},
      {R"("dtype":"U8","shape":[[1]],"data_offsets":[0,1])",
       "is not allowed here"},
      {R"("dtype":"U8","shape":["1"],"data_offsets":[0,1])",
       "is not allowed here"},
      {R"("dtype":"U8","shape":[null],"data_offsets":[0,1])",
       "is not allowed here"},
      {R"("dtype":"U8","shape":1,"data_offsets":[0,1])", "is not allowed here"},
      {R"("dtype":8,"shape":[1],"data_offsets":[0,1])", "is not allowed here"},
      {R"("dtype":"","shape":[1],"data_offsets":[0,1])", "needs dtype"},
      {R"("dtype":"X9","shape":[1],"data_offsets":[0,1])", "unknown dtype"},
      {R"("dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1)",
       "is not allowed here"},
      {R"("dtype":"U8","shape":[2],"data_offsets":[0,1])", "need"},
      {R"("dtype":"F4","shape":[1],"data_offsets":[0,1])", "need"},
      {R"("dtype":"F32","shape":[1],"data_offsets":[0,3])", "need"},
      {R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])",
       "overflows"},
      {R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])",
       "overflows"},
      {R"("dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,0])",
       "too large"},
      {R"("dtype":"U8","shape":[1],"data_offsets":[0,99999999999999999999])",
       "whole number"},
      {R"("dtype":"U8","shape":[0],"data_offsets":[9223372036854775807,)"
       R"(9223372036854775807])",
       "was expected"},
  };
  for (const auto& [fields, says] : cases) {
    EXPECT_THAT(ParseHeader(Entry(fields), 1), Refused(HasSubstr(says)))
        << fields;
  }
}

TEST(Safetensors, LimitsDepthRankAndLength) {
  // A hundred thousand brackets must not overflow the stack.
  const std::string deep = R"({"t":)" + std::string(100'000, '[');
  EXPECT_THAT(ParseHeader(deep, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
  std::string wide = R"({"t":{"dtype":"U8","shape":[1)";
  for (int i = 0; i < 64; ++i) wide += ",1";
  wide += R"(],"data_offsets":[0,1]}})";
  EXPECT_THAT(ParseHeader(wide, 1),
              StatusIs(absl::StatusCode::kInvalidArgument));
  const TempDir dir;
  const std::string path = dir / "a.safetensors";
  for (const uint64_t length : {uint64_t{100'000'001}, ~uint64_t{0},
                                ~uint64_t{0} - 7, uint64_t{1} << 63}) {
    WriteFile(path, FileOf("{}", "", length));
    EXPECT_THAT(File::Open(path), Refused(HasSubstr("limit")));
  }
}

TEST(Safetensors, OpensRegularFilesOnly) {
  const TempDir dir;
  EXPECT_THAT(File::Open(dir / "none"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_FALSE(File::Open(dir.path().string()).ok());
  EXPECT_FALSE(File::Open("/dev/zero").ok());
}

TEST(Safetensors, WritesWhatItReads) {
  const TempDir dir;
  const std::string path = dir / "a.safetensors";
  const std::vector<std::byte> bytes(12, std::byte{7});
  ASSERT_OK_AND_ASSIGN(
      auto writer,
      Writer::Create(path,
                     {{"a", "U8", {3, 4}, 0, 12}, {"late", "F32", {3}, 0, 12}},
                     {{"k", "v"}}));
  const absl::Span<const std::byte> span = bytes;
  EXPECT_THAT(writer.Write("late", 8, span.first(4)), IsOk());
  EXPECT_FALSE(writer.Append("late", bytes).ok());
  // Commit fails while bytes of a declared tensor are missing.
  EXPECT_FALSE(writer.Commit().ok());
  EXPECT_THAT(writer.Write("late", 0, span.first(8)), IsOk());
  EXPECT_FALSE(writer.Append("a", {}).ok());
  EXPECT_THAT(writer.Append("a", bytes), IsOk());
  EXPECT_FALSE(writer.Append("a", bytes).ok());
  EXPECT_FALSE(writer.Append("other", bytes).ok());
  EXPECT_FALSE(writer.Write("a", 8, bytes).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_THAT(writer.Commit(), IsOk());
  EXPECT_EQ(dir.files(), 1u);
  ASSERT_OK_AND_ASSIGN(const auto file, File::Open(path));
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.Find("a")->shape, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(file.metadata().size(), 1u);
  EXPECT_EQ(BytesOf(file, *file.Find("a")), bytes);
}

TEST(Safetensors, LeavesNothingBehindWithoutCommit) {
  const TempDir dir;
  const std::string path = dir / "a.safetensors";
  WriteFile(path, "before");
  {
    const auto writer = Writer::Create(path, {{"a", "U8", {1}, 0, 1}}, {});
    ASSERT_THAT(writer, IsOk());
    EXPECT_EQ(dir.files(), 2u);
  }
  EXPECT_EQ(dir.files(), 1u);
  EXPECT_EQ(ReadFile(path), "before");
  EXPECT_THAT(Writer::Create(dir / "no/such/dir.safetensors", {}, {}),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Writer::Create(
                  path, {{"a", "U8", {1}, 0, 1}, {"a", "U8", {1}, 0, 1}}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace quantd::safetensors
