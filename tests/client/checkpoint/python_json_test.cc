// Tests of NaN, infinities and huge integers, which only Python's JSON has.
#include "client/checkpoint/python_json.h"

#include <chrono>
#include <cmath>
#include <string>

#include "tests/testing/matchers.h"

namespace quantd::checkpoint {
namespace {

TEST(PythonJson, ReadsAndWritesNaNAndInfinities) {
  const Json json = ParsePythonJson(
      R"({"a": NaN, "b": [Infinity, -Infinity, -1.5], "c": "NaN, Infinity"})");
  EXPECT_TRUE(std::isnan(json["a"].get<double>()));
  EXPECT_EQ(json["b"][0], INFINITY);
  EXPECT_EQ(json["b"][1], -INFINITY);
  EXPECT_EQ(json["b"][2], -1.5);
  EXPECT_EQ(json["c"], "NaN, Infinity");
  EXPECT_EQ(PythonJsonText(json, -1),
            R"({"a":NaN,"b":[Infinity,-Infinity,-1.5],"c":"NaN, Infinity"})");
  EXPECT_EQ(PythonJsonText(ParsePythonJson(PythonJsonText(json, 2)), 2),
            PythonJsonText(json, 2));
}

// Python's integers have no limit. transformers writes model_max_length so.
TEST(PythonJson, KeepsTheDigitsOfHugeIntegers) {
  for (const char* text :
       {R"({"a":1000000000000000019884624838656,"b":[-9223372036854775809]})",
        R"([18446744073709551616,18446744073709551615,-9223372036854775808])",
        R"(["1000000000000000019884624838656",1.5,-0.25,1e+300,0])"}) {
    EXPECT_EQ(PythonJsonText(ParsePythonJson(text), -1), text);
  }
  EXPECT_EQ(ParsePythonJson("[18446744073709551615]")[0],
            18446744073709551615u);
  EXPECT_EQ(ParsePythonJson("[0.123456789012345678901234567890]")[0],
            0.123456789012345678901234567890);
  for (const char* text :
       {"{18446744073709551616: 1}", "[018446744073709551616]",
        "[18446744073709551616NaN]", "[18446744073709551616x]",
        "[--18446744073709551616]", "[1.18446744073709551616.0]"}) {
    EXPECT_THROW(ParsePythonJson(text), Json::exception) << text;
  }
}

TEST(PythonJson, KeepsTheseWordsInStringsAndKeys) {
  for (const char* text :
       {R"({"NaN":"Infinity"})", R"({"a\"NaN":NaN})", R"({"\\":Infinity})",
        R"({"\u0000NaN":NaN})", R"({"a":"\\\"","b":-Infinity})"}) {
    EXPECT_EQ(PythonJsonText(ParsePythonJson(text), -1), text);
  }
}

TEST(PythonJson, RefusesWhatPythonRefuses) {
  for (const char* text : {"{NaN: 1}", "[nan]", "[+Infinity]", "[-Inf]",
                           "[NaNNaN]", "[1NaN]", "[- Infinity]", "\"NaN"}) {
    EXPECT_THROW(ParsePythonJson(text), Json::exception) << text;
  }
}

// The time must not grow with the square of the file size.
TEST(PythonJson, ReadsAndWritesManyNaNs) {
  std::string text = "[";
  for (int i = 0; i < 300000; ++i) text += "NaN,";
  text.back() = ']';
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(PythonJsonText(ParsePythonJson(text), -1), text);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace quantd::checkpoint
