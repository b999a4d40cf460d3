// A request whose size nobody has declared, half of which comes.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/attack/http2_peer.h"
#include "tests/server/server_fixture.h"

namespace quantd {
namespace {

TEST_F(ServerTest, AnUndeclaredRequestCountsAsItComesAndMayFindNoRoom) {
  options_.memory_budget = 28 << 20;  // a third of it to receive
  StartFake();
  const auto peer = attack::Http2Peer::Connect(
      {.address = server_->address()}, {},
      std::chrono::steady_clock::now() + std::chrono::minutes(1));
  ASSERT_NE(peer, nullptr);
  const auto begin = [&] {
    const uint32_t call = peer->Open("/quantd.v1.Quantd/Quantize");
    EXPECT_TRUE(peer->BeginMessage(call, 8 << 20));
    EXPECT_EQ(peer->SendZeros(call, 2 << 20), size_t{2} << 20);
    return call;
  };
  const uint32_t first = begin();
  EXPECT_TRUE(Eventually(
      [&] { return server_->gate().receiving_used() >= size_t{2} << 20; }));
  EXPECT_TRUE(peer->IsOpen(first));
  EXPECT_TRUE(peer->Reset(first));
  EXPECT_TRUE(Eventually([&] { return server_->gate().used() == 0; }));
  // Where another has declared all that there is.
  RpcOptions large;
  large.declared = std::to_string(8 << 20);
  RpcCall silent(channel_, large);
  EXPECT_TRUE(Eventually(
      [&] { return server_->gate().receiving_used() >= size_t{8} << 20; }));
  const uint32_t second = begin();
  EXPECT_TRUE(peer->AwaitEnd(second, std::chrono::seconds(30)));
  EXPECT_GE(server_->gate().receiving_used(), size_t{8} << 20);
  silent.Cancel();
}

}  // namespace
}  // namespace quantd
