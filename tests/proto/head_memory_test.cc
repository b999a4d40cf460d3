// Tests that the memory of a request's head stays within the bound of
// HeadMemory.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>

#include "proto/messages.h"
#include "proto/wire.h"
#include "tests/proto/raw_message.h"

namespace {

size_t live = 0;
size_t peak = 0;

void* Counted(void* p) {
  if (p == nullptr) throw std::bad_alloc();
  live += malloc_usable_size(p);
  peak = std::max(peak, live);
  return p;
}
void Forget(void* p) {
  if (p != nullptr) live -= malloc_usable_size(p);
  std::free(p);
}

}  // namespace

// The count needs no lock, because these tests have a single thread.
void* operator new(size_t size) { return Counted(std::malloc(size)); }
void* operator new[](size_t size) { return Counted(std::malloc(size)); }
void operator delete(void* p) noexcept { Forget(p); }
void operator delete[](void* p) noexcept { Forget(p); }
void operator delete(void* p, size_t) noexcept { Forget(p); }
void operator delete[](void* p, size_t) noexcept { Forget(p); }

namespace quantd::wire {
namespace {

struct Head {
  std::string name;
  Method method;
  std::string bytes;
  bool planned = false;  // the request is legal, so it has a plan
};

std::string Many(const std::string& field, size_t bytes = kMaxHeadBytes) {
  std::string out;
  while (out.size() + field.size() <= bytes) out += field;
  return out;
}

// Returns a request for every output with the largest number of groups.
std::string Groups(v1::Format format, size_t history) {
  v1::QuantizeRequest m;
  m.mutable_tensor()->set_dtype(v1::DTYPE_BF16);
  m.mutable_tensor()->add_shape(kMaxGroups);
  m.mutable_tensor()->add_shape(2048);
  m.mutable_options()->set_format(format);
  m.mutable_options()->set_usage(v1::USAGE_BOTH);
  for (size_t i = 0; i < kMaxGroups; ++i)
    m.mutable_options()->mutable_splits()->add_rows(1);
  m.mutable_options()->set_amax(true);
  m.mutable_options()->set_dbias(true);
  if (history > 0) {
    for (size_t i = 0; i < kMaxGroups; ++i) m.mutable_options()->add_scale(1);
    for (size_t i = 0; i < kMaxGroups * history; ++i) {
      m.mutable_options()->mutable_history()->add_amax(1);
    }
  }
  m.set_payload("");
  return m.SerializeAsString();
}

std::string Amaxes(int64_t rows) {
  v1::QuantizeRequest m;
  m.mutable_tensor()->set_dtype(v1::DTYPE_BF16);
  m.mutable_tensor()->add_shape(rows);
  m.mutable_tensor()->add_shape(16);
  m.mutable_options()->set_format(v1::FORMAT_NVFP4);
  m.mutable_options()->mutable_form()->set_row_scaled(true);
  for (int64_t i = 0; i < rows; ++i) {
    m.mutable_options()->mutable_given_amax()->add_rowwise_values(1);
  }
  return m.SerializeAsString();
}

std::vector<Head> Heads() {
  const std::string varints(kMaxListBytes / 8, '\1');
  return {
      {"nothing", Method::kQuantize, ""},
      {"empty refs", Method::kDequantize, Many(Delimited(3, ""))},
      {"refs with a shape", Method::kDequantize,
       Many(Delimited(3, Delimited(4, "\1")))},
      {"refs with an unpacked shape", Method::kDequantize,
       Many(Delimited(3, Tag(4, kVarint) + "\1"))},
      {"unknown numbers", Method::kQuantize, Many(Tag(90, kVarint) + "\1")},
      {"unknown bytes", Method::kQuantize, Many(Delimited(90, ""))},
      {"unknown groups", Method::kQuantize,
       Many(Tag(9, kStartGroup) + Tag(9, kEndGroup))},
      {"nested unknown groups", Method::kQuantize,
       Many(Many(Tag(1, kStartGroup), 90) + Many(Tag(1, kEndGroup), 90))},
      {"unknown bytes in a sub-message", Method::kQuantize,
       Delimited(2, Many(Delimited(90, ""), kMaxHeadBytes - 8))},
      {"amaxes unpacked", Method::kQuantize,
       Delimited(2, Delimited(5, Many(Tag(3, kFixed32) + "abcd",
                                      kMaxHeadBytes - 16)))},
      {"repeated options", Method::kQuantize,
       Many(Delimited(2, Delimited(5, "")))},
      {"shape", Method::kQuantize,
       Delimited(1, Delimited(2, std::string(kMaxHeadBytes - 16, '\1')))},
      {"splits of ones", Method::kQuantize,
       Delimited(2, Delimited(18, Delimited(1, varints)))},
      {"offsets of ones", Method::kDequantize,
       Delimited(3, Delimited(7, varints))},
      {"offsets of ones, in many refs", Method::kDequantize,
       Many(Delimited(3, Delimited(7, std::string(100, '\1'))),
            kMaxListBytes / 8)},
      {"empty ranges", Method::kQuantize,
       Delimited(100, Many(Delimited(1, ""), kMaxHeadBytes - 8))},
      {"outputs with empty ranges", Method::kQuantize,
       Delimited(100, Many(Delimited(2, Delimited(2, "")), kMaxHeadBytes - 8))},
      {"refs with empty ranges", Method::kDequantize,
       Many(Delimited(3, Delimited(8, "")))},
      {"amaxes", Method::kQuantize, Amaxes(kMaxListBytes / 4 - 16), true},
      {"groups of nvfp4", Method::kQuantize, Groups(v1::FORMAT_NVFP4, 0)},
      {"groups of mxfp8", Method::kQuantize, Groups(v1::FORMAT_MXFP8_E4M3, 0)},
      {"groups with histories", Method::kQuantize,
       Groups(v1::FORMAT_FP8_E4M3, 52)},
      {"groups with short histories", Method::kQuantize,
       Groups(v1::FORMAT_FP8_E4M3, 1)},
  };
}

TEST(HeadMemory, BoundHoldsForEveryHead) {
  for (const Head& head : Heads()) {
    SCOPED_TRACE(head.name);
    const std::string_view whole = head.bytes;
    const size_t before = live;
    peak = live;
    std::string reply;
    {
      // Runs the stages of a call: parsing, planning, and describing the reply
      // while the plan exists.
      const auto separated = ParseRequest(head.method, {&whole, 1});
      std::shared_ptr<const Plan> plan;
      if (head.method == Method::kQuantize) {
        const auto described = ParseDescribeRequest({&whole, 1});
        if (described.ok()) plan = *described;
      }
      if (plan != nullptr) reply = ReplyHead(*plan, {}, "cuda:0", "id");
    }
    const size_t took = peak - before;
    std::printf(
        "%-36s %8zu bytes: %9zu, %5.1f each\n", head.name.c_str(),
        head.bytes.size(), took,
        static_cast<double>(took) /
            static_cast<double>(std::max<size_t>(1, head.bytes.size())));
    EXPECT_LE(took, HeadMemory(head.bytes.size()));
    EXPECT_LE(HeadMemory(head.bytes.size()), kMaxHeadMemory);
  }
}

}  // namespace
}  // namespace quantd::wire
