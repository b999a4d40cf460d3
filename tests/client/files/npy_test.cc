#include "client/files/npy.h"

#include "tests/client/temp_dir.h"
#include "tests/testing/matchers.h"

namespace quantd::npy {
namespace {

using testing::HasSubstr;

std::string FileOf(std::string_view dict, size_t data, char major = 1) {
  std::string out = "\x93NUMPY";
  out += major;
  out += '\0';
  const size_t n = dict.size();
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) {
    out += static_cast<char>(n >> (8 * i) & 0xFF);
  }
  out += dict;
  out.append(data, 'd');
  return out;
}

absl::StatusOr<Header> ParseHeader(const std::string& file) {
  return npy::ParseHeader(file, file.size());
}

constexpr char kGood[] =
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n";

TEST(Npy, ReadsAllVersionsAndSpellings) {
  for (const char major : {1, 2, 3}) {
    ASSERT_OK_AND_ASSIGN(const auto header,
                         ParseHeader(FileOf(kGood, 24, major)));
    EXPECT_EQ(header.dtype, DType::kF32);
    EXPECT_EQ(header.shape, (std::vector<int64_t>{2, 3}));
  }
  const std::pair<const char*, size_t> good[] = {
      {"{\"shape\":(4,),\"descr\":\"<f2\",\"fortran_order\":False}", 8},
      {"{'descr':'<f2','fortran_order':False,'shape':()}", 2},
      {"{'descr':'<f2','fortran_order':False,'shape':(0,9)}", 0},
      // With one dimension C order and Fortran order are the same.
      {"{'descr':'<f2','fortran_order':True,'shape':(3,)}", 6},
  };
  for (const auto& [dict, data] : good) {
    EXPECT_THAT(ParseHeader(FileOf(dict, data)), IsOk()) << dict;
  }
}

TEST(Npy, RefusesMaliciousHeaders) {
  const std::tuple<const char*, size_t, const char*> cases[] = {
      {"", 0, "expected '{'"},
      {"[]", 0, "expected '{'"},
      {"{", 0, "quoted key"},
      {"{}", 0, "needs descr"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", 4,
       "follows the dict"},
      {"{'descr': '<f4', 'fortran_order': False}", 4, "needs descr"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
       4, "each once"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", 4,
       "each once"},
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", 4, "<f4"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", 8, "astype"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 8, "astype"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4,
       "structured"},
      {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}", 16,
       "Fortran"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", 4, "neither"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3)}", 12, "tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': [3]}", 12, "tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}", 12,
       "whole number"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3L,)}", 12, "tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3.0, 1)}", 12,
       "tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", 12,
       "whole number"},
      {"{'descr': '<f4', 'fortran_order': False, "
       "'shape': (18446744073709551616,)}",
       0, "too large"},
      {"{'descr': '<f4', 'fortran_order': False, "
       "'shape': (9223372036854775807, 9223372036854775807)}",
       4, "overflows"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, "
       "4294967296)}",
       0, "overflows"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 11,
       "needs 12"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 13,
       "needs 12"},
      {"{'de\\x73cr': '<f4', 'fortran_order': False, 'shape': (3,)}", 12,
       "quoted key"},
      {"__import__('os')", 0, "expected '{'"},
  };
  for (const auto& [dict, data, says] : cases) {
    EXPECT_THAT(ParseHeader(FileOf(dict, data)), Refused(HasSubstr(says)))
        << dict;
  }
  std::string deep = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 65; ++i) deep += "1, ";
  EXPECT_THAT(ParseHeader(FileOf(deep + ")}", 4)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ParseHeader(FileOf(kGood, 24, 4)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  // The header states a length of 4 GiB in a small file.
  std::string lying = FileOf(kGood, 24, 2);
  lying.replace(8, 4, "\xFF\xFF\xFF\xFF");
  EXPECT_THAT(ParseHeader(lying), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(Npy, RefusesEveryTruncation) {
  for (const char major : {1, 2}) {
    const std::string whole = FileOf(kGood, 24, major);
    for (size_t n = 0; n < whole.size(); ++n) {
      EXPECT_THAT(ParseHeader(whole.substr(0, n)),
                  StatusIs(absl::StatusCode::kInvalidArgument))
          << n;
    }
  }
}

TEST(Npy, WritesWhatItReads) {
  const TempDir dir;
  const std::string path = dir / "a.npy";
  std::vector<std::byte> bytes(24);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i);
  const std::vector<std::vector<int64_t>> shapes = {
      {2, 6}, {12}, {1, 2, 2, 3}, {12, 1}};
  for (const auto& shape : shapes) {
    ASSERT_THAT(Write(path, DType::kF16, shape, bytes), IsOk());
    ASSERT_OK_AND_ASSIGN(const auto file, File::Open(path));
    EXPECT_EQ(file.header().dtype, DType::kF16);
    EXPECT_EQ(file.header().shape, shape);
    EXPECT_EQ(file.header().data_offset % 64, 0u);
    ASSERT_EQ(file.size_bytes(), bytes.size());
    std::vector<std::byte> read(24);
    ASSERT_THAT(file.Read(0, absl::MakeSpan(read)), IsOk());
    EXPECT_EQ(read, bytes);
  }
  EXPECT_EQ(dir.files(), 1u);
  EXPECT_FALSE(Write(path, DType::kBF16, {12}, bytes).ok());
  EXPECT_FALSE(Write(path, DType::kF32, {12}, bytes).ok());
  EXPECT_FALSE(Write(dir / "no/such.npy", DType::kF16, {12}, bytes).ok());
}

}  // namespace
}  // namespace quantd::npy
