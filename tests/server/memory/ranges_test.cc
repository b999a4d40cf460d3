// Tests that invalid ranges of tensors in shared memory cause typed errors.
#include <functional>
#include <string>

#include "tests/server/memory/ranges_fixture.h"

namespace quantd {
namespace {

TEST_F(Ranges, RefusesUnknownNames) {
  StartReal({"cpu:0"});
  const Shared shared = Share();
  std::string other = shared.name;
  other[15] ^= 1;
  for (const std::string& name : {other, std::string(), shared.name.substr(1),
                                  shared.name + "x", std::string(16, '\0')}) {
    ExpectUnknown(Lent(name), "memory.inputs[0].region");
    v1::QuantizeRequest request = Lent(shared.name);
    request.mutable_memory()->mutable_outputs(1)->mutable_range()->set_region(
        name);
    ExpectUnknown(request, "memory.outputs[1].range.region");
  }
  // A region whose connection is closed.
  std::string gone;
  gone = Share().name;
  ASSERT_TRUE(
      Eventually([&] { return server_->memory_door()->use().regions == 1; }));
  ExpectUnknown(Lent(gone), "memory.inputs[0].region");
}

TEST_F(Ranges, RefusesRegionsWithoutAMemorySocket) {
  options_.memory_socket.clear();
  StartReal({"cpu:0"});
  EXPECT_EQ(server_->memory_door(), nullptr);
  ExpectUnknown(Lent(std::string(16, 'x')), "memory.inputs[0].region");
}

TEST_F(Ranges, RefusesRangesBeyondTheRegion) {
  StartReal({"cpu:0"});
  const Shared shared = Share();
  const std::string inside =
      fmt::format("{} bytes inside a region of {}", kInput, kSize);
  for (const uint64_t offset :
       {uint64_t{kSize}, kSize - kInput + 2, ~uint64_t{0} - 1,
        (~uint64_t{0} - kInput + 1), uint64_t{1} << 63}) {
    v1::QuantizeRequest request = Lent(shared.name);
    request.mutable_memory()->clear_outputs();
    request.mutable_memory()->mutable_inputs(0)->set_offset(offset);
    ExpectRefused(request, "memory.inputs[0].offset", inside,
                  fmt::format("offset {}", offset));
  }
  v1::QuantizeRequest request = Lent(shared.name);
  request.mutable_memory()->mutable_outputs(0)->mutable_range()->set_offset(
      kSize - kCodes + 1);
  ExpectRefused(request, "memory.outputs[0].range.offset",
                fmt::format("{} bytes inside a region of {}", kCodes, kSize),
                fmt::format("offset {}", kSize - kCodes + 1));
}

TEST_F(Ranges, RefusesSizesAndOffsetsThatDoNotFitThePlan) {
  StartReal({"cpu:0"});
  const Shared shared = Share();
  const auto changed = [&](const std::function<void(v1::LentMemory*)>& change) {
    v1::QuantizeRequest request = Lent(shared.name);
    change(request.mutable_memory());
    return request;
  };
  for (const uint64_t size :
       {uint64_t{0}, kInput - 1, kInput + 1, ~uint64_t{0}}) {
    ExpectRefused(
        changed([&](auto* m) { m->mutable_inputs(0)->set_size(size); }),
        "memory.inputs[0].size", fmt::format("{} bytes of input", kInput),
        fmt::format("{} bytes", size));
  }
  ExpectRefused(changed([](auto* m) {
                  m->mutable_outputs(1)->mutable_range()->set_size(4);
                }),
                "memory.outputs[1].range.size",
                fmt::format("{} bytes of rowwise_scale", kScales), "4 bytes");
  ExpectRefused(changed([](auto* m) { m->mutable_inputs(0)->set_offset(1); }),
                "memory.inputs[0].offset", "a multiple of 2, the size of bf16",
                "1");
  ExpectRefused(changed([&](auto* m) { *m->add_inputs() = m->inputs(0); }),
                "memory.inputs", "1 ranges", "2");
  ExpectRefused(changed([&](auto* m) { *m->add_outputs() = m->outputs(0); }),
                "memory.outputs[2].kind", "each kind once",
                "rowwise_data again");
  ExpectRefused(changed([](auto* m) {
                  m->mutable_outputs(0)->set_kind(v1::TENSOR_KIND_ROTATED);
                }),
                "memory.outputs[0].kind", "a tensor of the reply", "rotated");
  ExpectRefused(
      changed([](auto* m) {
        m->mutable_outputs(0)->set_kind(static_cast<v1::TensorKind>(99));
      }),
      "memory.outputs[0].kind", "a tensor of the reply", "number 99");
}

TEST_F(Ranges, RefusesOverlappingRanges) {
  StartReal({"cpu:0"});
  const Shared shared = Share();
  const auto at = [&](int output, uint64_t offset) {
    v1::QuantizeRequest request = Lent(shared.name);
    request.mutable_memory()
        ->mutable_outputs(output)
        ->mutable_range()
        ->set_offset(offset);
    return request;
  };
  ExpectRefused(at(0, 0), "memory.outputs[0].range",
                "a range that does not overlap memory.inputs[0]",
                fmt::format("{} bytes at 0, and {} at 0", kCodes, kInput));
  ExpectRefused(
      at(0, kInput - 1), "memory.outputs[0].range",
      "a range that does not overlap memory.inputs[0]",
      fmt::format("{} bytes at {}, and {} at 0", kCodes, kInput - 1, kInput));
  ExpectRefused(at(1, kInput + kCodes - 1), "memory.outputs[0].range",
                "a range that does not overlap memory.outputs[1].range",
                fmt::format("{} bytes at {}, and {} at {}", kCodes, kInput,
                            kScales, kInput + kCodes - 1));
  // Equal offsets in different regions do not overlap.
  const Shared second = Share();
  v1::QuantizeRequest request = at(0, 0);
  request.mutable_memory()->mutable_outputs(0)->mutable_range()->set_region(
      second.name);
  EXPECT_TRUE(Call(channel_, request.SerializeAsString()).status.ok());
}

TEST_F(Ranges, RefusesOutputsInReadOnlyRegions) {
  StartReal({"cpu:0"});
  const Shared shared = Share(true);
  ExpectRefused(Lent(shared.name), "memory.outputs[0].range.region",
                "a region that the server may write to",
                "one that is read-only");
  v1::QuantizeRequest request = Lent(shared.name);
  request.mutable_memory()->clear_outputs();
  EXPECT_TRUE(Call(channel_, request.SerializeAsString()).status.ok());
}

TEST_F(Ranges, RefusesUnknownEvents) {
  StartReal({"cpu:0"});
  const Shared shared = Share();
  for (const std::string& name :
       {std::string(16, 'x'), shared.name, std::string("x")}) {
    v1::QuantizeRequest request = Lent(shared.name);
    request.mutable_memory()->set_wait_event(name);
    ExpectUnknownEvent(request, "memory.wait_event");
    request = Lent(shared.name);
    request.mutable_memory()->set_record_event(name);
    ExpectUnknownEvent(request, "memory.record_event");
    // Events require inputs or outputs in shared memory.
    request = QuantizeOnes(kRows);
    request.mutable_memory()->set_record_event(name);
    ExpectRefused(request, "memory.record_event",
                  "none in a call without shared memory", "one");
    request.mutable_memory()->set_wait_event(name);
    ExpectRefused(request, "memory.wait_event",
                  "none in a call without shared memory", "one");
  }
}

TEST_F(Ranges, RefusesAPayloadBesideRanges) {
  StartReal({"cpu:0"});
  const Shared shared = Share();
  v1::QuantizeRequest request = Lent(shared.name);
  request.set_payload(std::string(kInput, 'x'));
  ExpectRefused(request, "payload", "none with memory.inputs",
                fmt::format("{} bytes", kInput));
  request.clear_payload();
  request.mutable_memory()->clear_inputs();
  ExpectRefused(request, "payload", fmt::format("{} bytes", kInput), "0 bytes");
}

TEST_F(Ranges, RefusesRegionsWithMissingPages) {
  StartReal({"cpu"});
  const Descriptor memfd = Memfd(kSize, kSize);
  Peer peer(options_.memory_socket);
  ASSERT_EQ(peer.Offered(memfd, kSize), OfferAnswer::kTaken);
  const Shared other = Share();
  const v1::QuantizeRequest request = Lent(peer.name);
  EXPECT_TRUE(Call(channel_, request.SerializeAsString()).status.ok());
  ASSERT_EQ(fallocate(memfd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      kPage, kPage),
            0);
  const auto refused = [&] {
    ExpectRefused(request, "memory.inputs[0].region",
                  "a region that has all of its pages, as when offered",
                  "one that has lost some of them");
  };
  refused();
  // The region stays refused, because pages could disappear again between
  // calls.
  ASSERT_EQ(fallocate(memfd.get(), 0, 0, kSize), 0);
  refused();
  EXPECT_TRUE(Call(channel_, Lent(other.name).SerializeAsString()).status.ok());
}

}  // namespace
}  // namespace quantd
