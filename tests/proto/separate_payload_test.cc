// Tests of SeparatePayload with malformed and unusual messages, compared with
// protobuf's own parser.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "proto/messages.h"
#include "proto/wire.h"
#include "quantd/field_error.h"
#include "tests/proto/raw_message.h"
#include "tests/testing/matchers.h"

namespace quantd::wire {
namespace {

struct Hazard {
  std::string_view name;
  std::string bytes;
  bool legal;
};

std::string Nested(int groups, std::string_view inside = "") {
  std::string out;
  for (int i = 0; i < groups; ++i) out += Tag(9, kStartGroup);
  out += inside;
  for (int i = 0; i < groups; ++i) out += Tag(9, kEndGroup);
  return out;
}

std::vector<Hazard> Hazards() {
  const std::string x = "payload bytes";
  // Enough bytes follow a wrong length, so that only the length is wrong.
  const std::string rest(64, '\0');
  return {
      {"empty", "", true},
      {"payload", Payload(x), true},
      {"empty payload", Payload(""), true},
      {"payload twice", Payload("first") + Payload(x), true},
      {"payload, then an empty one", Payload(x) + Payload(""), true},
      {"payload before the rest", Payload(x) + Tag(2, 0) + Varint(1), true},
      {"payload between",
       Tag(2, 0) + Varint(1) + Payload(x) + Tag(3, 0) + Varint(1), true},
      {"payload as varint", Tag(101, kVarint) + Varint(7), true},
      {"payload as fixed32", Tag(101, kFixed32) + "abcd", true},
      {"payload as fixed64", Tag(101, kFixed64) + "abcdefgh", true},
      {"payload as group",
       Tag(101, kStartGroup) + Payload(x) + Tag(101, kEndGroup), true},
      {"payload tag in 5 bytes", Tag(101, 2, 5) + Varint(1) + "x", true},
      {"payload tag in 6 bytes", Tag(101, 2, 6) + Varint(1) + "x", false},
      {"payload length in 5 bytes", Tag(101, 2) + Varint(1, 5) + "x", true},
      {"payload length in 6 bytes", Tag(101, 2) + Varint(1, 6) + "x", false},
      {"payload length past the end", Tag(101, 2) + Varint(3) + "xx", false},
      {"payload length 2^31-1", Tag(101, 2) + Varint(0x7fffffff) + rest, false},
      {"payload length 2^32+1", Tag(101, 2) + Varint(0x100000001) + rest,
       false},
      {"payload length 2^64-1", Tag(101, 2) + Varint(~uint64_t{0}) + rest,
       false},
      {"payload without length", Tag(101, 2), false},
      {"tag 0", std::string(1, '\0'), false},
      {"tag 0 in two bytes", std::string("\x80\0", 2), false},
      {"field 0 as varint", Tag(0, kVarint, 2) + Varint(1), false},
      {"field 0 as bytes", Delimited(0, "x"), false},
      {"largest field number", Tag((1 << 29) - 1, kVarint) + Varint(1), true},
      // The high bits of a fifth byte are dropped: this is field 5.
      {"field number over 2^29", Tag((uint64_t{1} << 29) + 5, 0) + Varint(1),
       true},
      {"field number 2^29, which is truncated to 0",
       Tag(uint64_t{1} << 29, 0) + Varint(1), false},
      {"unterminated tag", std::string("\xff\xff"), false},
      {"wire type 6", Tag(9, 6) + rest, false},
      {"wire type 7", Tag(9, 7) + rest, false},
      {"varint of 10 bytes", Tag(9, 0) + Varint(~uint64_t{0}), true},
      {"varint of 10 bytes, padded", Tag(9, 0) + Varint(1, 10), true},
      {"varint of 11 bytes", Tag(9, 0) + Varint(1, 11), false},
      {"varint cut short", Tag(9, 0) + "\x80", false},
      {"fixed32 cut short", Tag(9, kFixed32) + "abc", false},
      {"fixed64 cut short", Tag(9, kFixed64) + "abcdefg", false},
      {"unknown bytes cut short", Tag(9, 2) + Varint(2) + "x", false},
      {"unknown length 2^64-1", Tag(9, 2) + Varint(~uint64_t{0}) + rest, false},
      {"empty group", Nested(1), true},
      {"group with fields", Nested(2, Delimited(1, x) + Tag(4, 0) + Varint(5)),
       true},
      {"group with payload inside", Nested(1, Payload(x)), true},
      {"100 groups", Nested(100), true},
      {"101 groups", Nested(101), false},
      {"group without end", Tag(9, kStartGroup), false},
      {"end without group", Tag(9, kEndGroup), false},
      {"payload, then an end", Payload(x) + Tag(9, kEndGroup), false},
      {"group with the wrong end", Tag(9, kStartGroup) + Tag(8, kEndGroup),
       false},
      {"overlapping groups",
       Tag(9, 3) + Tag(8, 3) + Tag(9, kEndGroup) + Tag(8, kEndGroup), false},
      {"tag 0 in a group", Nested(1, std::string(1, '\0')), false},
      {"wire type 6 in a group", Nested(1, Tag(1, 6)), false},
      {"wrong length in a group", Nested(1, Tag(1, 2) + Varint(100)), false},
      {"tensor twice",
       Delimited(1, Tag(1, 0) + Varint(1)) +
           Delimited(1, Tag(2, 0) + Varint(16)),
       true},
      {"shape packed", Delimited(1, Delimited(2, Varint(4) + Varint(16))),
       true},
      {"shape not packed",
       Delimited(1, Tag(2, 0) + Varint(4) + Tag(2, 0) + Varint(16)), true},
      {"broken sub-message", Delimited(1, Tag(1, 0)), false},
      {"packed shape cut short", Delimited(1, Delimited(2, "\x80")), false},
      {"group open at the end of a sub-message",
       Delimited(1, Tag(9, kStartGroup)), false},
  };
}

// Parses the separated head and payload; nullopt if that fails.
std::optional<v1::QuantizeRequest> ViaSplit(Slices slices) {
  const auto separated = SeparatePayload(slices);
  v1::QuantizeRequest message;
  if (!separated.ok()) {
    EXPECT_TRUE(IsMalformed(separated.status())) << separated.status();
    return std::nullopt;
  }
  if (!message.ParseFromString(separated->head)) return std::nullopt;
  EXPECT_EQ(message.payload(), "");
  std::string flat;
  for (std::string_view s : slices) flat += s;
  message.set_payload(
      flat.substr(separated->payload.offset, separated->payload.size));
  return message;
}

TEST(SeparatePayload, AgreesWithProtobufOnUnusualMessages) {
  for (const Hazard& hazard : Hazards()) {
    SCOPED_TRACE(hazard.name);
    v1::QuantizeRequest expected;
    ASSERT_EQ(expected.ParseFromString(hazard.bytes), hazard.legal);
    // The message is whole, cut in two at every byte, or cut into single bytes.
    std::vector<std::vector<size_t>> cuts = {{}};
    std::vector<size_t> all;
    for (size_t i = 0; i <= hazard.bytes.size(); ++i) {
      cuts.push_back({i});
      all.push_back(i);
    }
    cuts.push_back(all);
    for (const std::vector<size_t>& cut : cuts) {
      const auto got = ViaSplit(Cut(hazard.bytes, cut));
      ASSERT_EQ(got.has_value(), hazard.legal);
      if (!got) continue;
      EXPECT_EQ(got->SerializeAsString(), expected.SerializeAsString());
    }
  }
}

TEST(SeparatePayload, AgreesWithProtobufOnEveryTruncation) {
  for (const Hazard& hazard : Hazards()) {
    for (size_t n = 0; n < hazard.bytes.size(); ++n) {
      SCOPED_TRACE(testing::Message() << hazard.name << " to " << n);
      const std::string bytes = hazard.bytes.substr(0, n);
      v1::QuantizeRequest expected;
      const bool legal = expected.ParseFromString(bytes);
      const auto got = ViaSplit(Cut(bytes, {n / 2, n / 2}));
      ASSERT_EQ(got.has_value(), legal);
      if (!got) continue;
      EXPECT_EQ(got->SerializeAsString(), expected.SerializeAsString());
    }
  }
}

TEST(SeparatePayload, AcceptsNoSlicesAndEmptySlices) {
  EXPECT_THAT(SeparatePayload({}), IsOk());
  const std::vector<std::string_view> empty(3);
  const auto separated = SeparatePayload(empty);
  ASSERT_THAT(separated, IsOk());
  EXPECT_EQ(separated->head, "");
  EXPECT_EQ(separated->payload.size, 0u);
}

TEST(SeparatePayload, DoesNotCopyThePayload) {
  const std::string head = Tag(2, 0) + Varint(1);
  const std::string bytes = head + Payload("0123456789");
  const auto separated = SeparatePayload(Cut(bytes, {1, 6, 6, 9}));
  ASSERT_THAT(separated, IsOk());
  EXPECT_EQ(separated->head, head);
  EXPECT_EQ(separated->payload.offset, bytes.size() - 10);
  EXPECT_EQ(separated->payload.size, 10u);
}

// Returns a head of exactly `n` bytes.
std::string HeadOf(size_t n) {
  const std::string frame = Delimited(9, std::string(n - 4, 'x'));
  EXPECT_EQ(frame.size(), n);
  return frame;
}

void ExpectTooLong(const std::string& bytes) {
  const std::string_view whole = bytes;
  const auto violation =
      GetFieldViolation(SeparatePayload(absl::MakeSpan(&whole, 1)).status());
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->field, "message");
  EXPECT_EQ(violation->expected, "at most 262144 bytes beside the payload");
}

TEST(SeparatePayload, LimitsTheHead) {
  const std::string most = HeadOf(kMaxHeadBytes) + Payload("x");
  const auto separated = SeparatePayload(Cut(most, {100, 7000}));
  ASSERT_THAT(separated, IsOk());
  EXPECT_EQ(separated->head.size(), kMaxHeadBytes);
  ExpectTooLong(HeadOf(kMaxHeadBytes + 1));
  // Heads split around a payload, into many fields, and inside a group.
  ExpectTooLong(HeadOf(140000) + Payload("x") + HeadOf(140000));
  std::string many;
  for (size_t i = 0; i <= kMaxHeadBytes / 2; ++i) many += "\x10\x01";
  ExpectTooLong(many);
  ExpectTooLong(Nested(1, many));
}

TEST(SeparatePayload, TakesTheLimitAsArgument) {
  const std::string bytes = HeadOf(kMaxHeadBytes + 1) + Payload("x");
  const std::string_view whole = bytes;
  EXPECT_THAT(SeparatePayload(absl::MakeSpan(&whole, 1), kMaxReplyHeadBytes),
              IsOk());
  const auto violation = GetFieldViolation(
      SeparatePayload(absl::MakeSpan(&whole, 1), kMaxHeadBytes / 2).status());
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->expected, "at most 131072 bytes beside the payload");
}

// Expects that every packed list of numbers in `type`, which is at the fields
// `path`, counts as a list of `method`'s requests. Shapes are short and do not
// count.
void ExpectListsCounted(Method method, const google::protobuf::Descriptor* type,
                        std::vector<int> path, int* found) {
  for (int i = 0; i < type->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = type->field(i);
    path.push_back(field->number());
    if (field->message_type() != nullptr) {
      ExpectListsCounted(method, field->message_type(), path, found);
    } else if (field->is_packable() && field->name() != "shape") {
      ++*found;
      // Adds other fields at every depth, and the list twice.
      std::string list(8, '\1');
      for (size_t k = path.size(); k-- > 0;) {
        list = Tag(90, kVarint) + "\1" + Delimited(path[k], list);
      }
      const std::string bytes = list + list;
      const std::string_view whole = bytes;
      const auto separated = SeparateRequest(method, {&whole, 1});
      ASSERT_THAT(separated, IsOk());
      EXPECT_EQ(separated->list_bytes, 16u) << field->full_name();
    }
    path.pop_back();
  }
}

TEST(SeparatePayload, CountsEveryListOfARequest) {
  int found = 0;
  for (const MethodSpec& row : kTensorMethods) {
    WithOptionsOf(row.method, [&](auto type) {
      using Rpc = TensorRpc<typename decltype(type)::type>;
      ExpectListsCounted(row.method, Rpc::Request::descriptor(), {}, &found);
    });
  }
  EXPECT_EQ(found, 8);
}

// A list with a wrong length does not count, and neither do bytes beyond the
// message that contains it.
TEST(SeparatePayload, CountsListsOnlyWithinTheirMessage) {
  std::string others;
  for (int i = 0; i < 8; ++i) others += Tag(1, kVarint) + "\1";
  // Options of 5 bytes that contain splits with length `splits`, which contain
  // rows of 8 bytes.
  const auto list_bytes = [&](uint64_t splits) {
    const std::string bytes = Tag(2, kDelimited) + Varint(5) +
                              Tag(18, kDelimited) + Varint(splits) +
                              Tag(1, kDelimited) + Varint(8) + others;
    const std::string_view whole = bytes;
    const auto separated = SeparateRequest(Method::kQuantize, {&whole, 1});
    EXPECT_THAT(separated, IsOk());
    return separated.ok() ? separated->list_bytes : 1;
  };
  EXPECT_EQ(list_bytes(2), 0u);
  EXPECT_EQ(list_bytes(10), 0u);
  const std::string honest = Delimited(2, Delimited(18, Delimited(1, "1234")));
  const std::string_view whole = honest;
  EXPECT_EQ(SeparateRequest(Method::kQuantize, {&whole, 1})->list_bytes, 4u);
}

TEST(SeparatePayload, PayloadDoesNotCountAsHead) {
  const std::string big(4 * kMaxHeadBytes, 'p');
  const std::string bytes = Payload(big) + Tag(2, 0) + Varint(1);
  const auto separated = SeparatePayload(Cut(bytes, {3, 5000}));
  ASSERT_THAT(separated, IsOk());
  EXPECT_EQ(separated->payload.size, big.size());
  EXPECT_EQ(separated->head.size(), 2u);
}

TEST(SeparatePayload, SharedMemoryRangesDoNotLengthenAShortHead) {
  const auto is_short = [](const std::string& bytes) {
    return HasShortHead(Cut(bytes, {3, 40}));
  };
  const std::string fields = Delimited(1, std::string(126, 'x'));
  const std::string ranges = Delimited(100, std::string(900, 'r'));
  EXPECT_TRUE(is_short(fields));
  EXPECT_TRUE(is_short(fields + Payload(std::string(5000, 'p'))));
  EXPECT_FALSE(is_short(Delimited(1, std::string(127, 'x'))));
  EXPECT_TRUE(is_short(ranges + fields));
  EXPECT_TRUE(is_short(fields + ranges + Payload("p")));
  EXPECT_FALSE(is_short(ranges + fields + Delimited(1, "")));
  EXPECT_FALSE(is_short(ranges + ranges));
  EXPECT_FALSE(is_short(fields + Tag(1, 6)));
}

}  // namespace
}  // namespace quantd::wire
