// Tests that Gather copies bytes to their offsets, however the message is cut
// into slices.
#include <gtest/gtest.h>

#include <string>

#include "proto/messages.h"
#include "proto/wire.h"
#include "tests/proto/raw_message.h"
#include "tests/testing/matchers.h"

namespace quantd::wire {
namespace {

std::string Bytes(size_t n) {
  std::string s(n, '\0');
  for (size_t i = 0; i < n; ++i) s[i] = static_cast<char>(1 + i % 251);
  return s;
}

// A rowwise tensor of 1 x 16: 8 bytes of codes, 512 of scales, 4 of amax.
v1::DequantizeRequest Small() {
  v1::DequantizeRequest m;
  m.mutable_tensor()->add_shape(16);
  m.mutable_options()->set_format(v1::FORMAT_NVFP4);
  m.mutable_options()->set_output(v1::DTYPE_F32);
  return m;
}

std::string Gathered(const Request& request, Slices slices) {
  std::string staging(request.plan->input_bytes(), '\xAA');
  Gather(request, slices,
         absl::MakeSpan(reinterpret_cast<std::byte*>(staging.data()),
                        staging.size()));
  return staging;
}

// Places data, scale and amax at the plan's offsets 0, 64 and 576.
std::string Staged(std::string_view data, std::string_view scale,
                   std::string_view amax) {
  std::string staging(580, '\0');
  staging.replace(0, 8, data);
  staging.replace(64, 512, scale);
  staging.replace(576, 4, amax);
  return staging;
}

void ExpectGathered(const v1::DequantizeRequest& m,
                    const std::string& expected) {
  const std::string bytes = m.SerializeAsString();
  // Cuts into two and three slices at every byte, and into single bytes with
  // empty slices in between.
  std::vector<std::vector<size_t>> cuts = {{}};
  std::vector<size_t> all;
  for (size_t i = 0; i <= bytes.size(); ++i) {
    cuts.push_back({i});
    cuts.push_back({i / 2, i});
    all.push_back(i);
    if (i % 7 == 0) all.push_back(i);
  }
  cuts.push_back(all);
  for (const std::vector<size_t>& cut : cuts) {
    const std::vector<std::string_view> slices = Cut(bytes, cut);
    const auto request = ParseRequest(Method::kDequantize, slices);
    ASSERT_THAT(request, IsOk());
    ASSERT_TRUE(BytesEq("staging", expected, Gathered(*request, slices)));
  }
}

TEST(Gather, CopiesTensorsBackToBack) {
  v1::DequantizeRequest m = Small();
  const std::string payload = Bytes(524);
  m.set_payload(payload);
  ExpectGathered(m, Staged(payload.substr(0, 8), payload.substr(8, 512),
                           payload.substr(520)));
}

TEST(Gather, AmaxAsFieldReplacesTheOneInThePayload) {
  v1::DequantizeRequest m = Small();
  m.set_amax(2.5f);
  const std::string amax("\x00\x00\x20\x40", 4);
  for (size_t size : {520, 524}) {
    const std::string payload = Bytes(size);
    m.set_payload(payload);
    ExpectGathered(m,
                   Staged(payload.substr(0, 8), payload.substr(8, 512), amax));
  }
}

TEST(Gather, AcceptsRefsInAnyOrderUnalignedAndOverlapping) {
  const std::string payload = Bytes(600);
  for (const bool given : {false, true}) {
    v1::DequantizeRequest m = Small();
    const auto add = [&](v1::TensorKind kind, uint64_t offset, uint64_t size) {
      v1::TensorRef* ref = m.add_tensors();
      ref->set_kind(kind);
      ref->set_offset(offset);
      ref->set_size(size);
    };
    add(v1::TENSOR_KIND_COLUMNWISE_DATA, ~uint64_t{0}, 9);  // ignored
    if (!given) add(v1::TENSOR_KIND_ROWWISE_AMAX, 3, 4);
    add(v1::TENSOR_KIND_ROWWISE_DATA, 592, 8);
    add(static_cast<v1::TensorKind>(99), 1, 1);
    add(v1::TENSOR_KIND_ROWWISE_SCALE, 1, 512);
    if (given) m.set_amax(0);
    m.set_payload(payload);
    ExpectGathered(m,
                   Staged(payload.substr(592), payload.substr(1, 512),
                          given ? std::string(4, '\0') : payload.substr(3, 4)));
  }
}

}  // namespace
}  // namespace quantd::wire
