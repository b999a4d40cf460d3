#include "client/net/address.h"

#include "proto/net/address.h"
#include "quantd/field_error.h"
#include "tests/testing/matchers.h"

namespace quantd::client {
namespace {

// Returns the parsed endpoints in order: an address as gRPC's target, a name as
// "name HOST PORT".
std::vector<std::string> Parse(std::string_view target) {
  const auto places = ParseTarget(target);
  if (!places.ok()) {
    const auto violation = GetFieldViolation(places.status());
    return {violation ? "refused " + violation->field : "refused"};
  }
  std::vector<std::string> list;
  for (const Place& place : *places) {
    if (const auto* address = std::get_if<Address>(&place)) {
      list.push_back(address->target);
    } else {
      const auto& name = std::get<HostName>(place);
      list.push_back("name " + name.host + " " + name.port);
    }
  }
  return list;
}

using testing::ElementsAre;

TEST(Address, ParsesOneOrManyEndpoints) {
  EXPECT_THAT(Parse("127.0.0.1:50151"), ElementsAre("127.0.0.1:50151"));
  EXPECT_THAT(Parse("[::1]:50151"), ElementsAre("[::1]:50151"));
  EXPECT_THAT(Parse("unix:/run/quantd"), ElementsAre("unix:/run/quantd"));
  EXPECT_THAT(Parse("quantd:50151"), ElementsAre("name quantd 50151"));
  EXPECT_THAT(Parse("dns:///quantd.ns.svc:50151"),
              ElementsAre("name quantd.ns.svc 50151"));
  EXPECT_THAT(Parse("dns:quantd:50151"), ElementsAre("name quantd 50151"));
  EXPECT_THAT(Parse("10.0.0.1:1, quantd:2,unix:/a"),
              ElementsAre("10.0.0.1:1", "name quantd 2", "unix:/a"));
  // gRPC's own syntax for a list of addresses, and for a name server.
  EXPECT_THAT(Parse("ipv4:10.0.0.1:1,10.0.0.2:1"),
              ElementsAre("ipv4:10.0.0.1:1", "10.0.0.2:1"));
  EXPECT_THAT(Parse("dns://10.0.0.53/quantd:1"),
              ElementsAre("dns://10.0.0.53/quantd:1"));
}

TEST(Address, DuplicatesCountOnce) {
  EXPECT_THAT(Parse("10.0.0.1:1,10.0.0.1:1,a:1,dns:///a:1"),
              ElementsAre("10.0.0.1:1", "name a 1"));
}

TEST(Address, RefusesInvalidAddresses) {
  for (const char* bad : {"", ",", "a:1,", "a:1,,b:1", "a", "a:", ":1",
                          "::1:50151", "[::1]", "unix:", "http://a:1", "a:1/b",
                          "user@a:1", "a b:1", "dns:", "dns:///", "a:1:2"}) {
    EXPECT_THAT(Parse(bad), ElementsAre("refused target")) << bad;
  }
}

TEST(Address, ResolvesNamesByTheSystem) {
  const auto found = ResolveBySystem({"localhost", "50151"});
  ASSERT_THAT(found, IsOk());
  for (const Address& address : *found) {
    EXPECT_TRUE(security::IsLoopback(address.target)) << address.target;
    EXPECT_EQ(address.authority, "localhost:50151");
  }
  const auto none = ResolveBySystem({"no-such-name.invalid", "1"});
  EXPECT_THAT(none, StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace quantd::client
