// Tests of GPU memory that a client shares, on emulated GPUs: the server uses
// it on its own GPU or on a peer.
#include "tests/server/memory/gpu_fixture.h"

namespace quantd {
namespace {

TEST_F(OnGpu, UsesItsMemoryInPlace) {
  StartReal({"cuda:0"});
  const OfGpu memory = ShareOf(0);
  FillOnes(memory.data);
  const RpcResult result =
      Call(channel_, Lent(memory.name).SerializeAsString());
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  ExpectRight(memory.data);
  EXPECT_EQ(server_->memory_door()->use().device_bytes, kSize);
}

TEST_F(OnGpu, ReadsAndWritesMemoryOfAPeerGpu) {
  emulation::SetDevices(2, true);
  StartReal({"cuda:0"});
  const OfGpu memory = ShareOf(1);
  FillOnes(memory.data);
  const RpcResult result =
      Call(channel_, Lent(memory.name).SerializeAsString());
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  v1::QuantizeReply reply;
  ASSERT_TRUE(reply.ParseFromString(result.reply));
  EXPECT_EQ(reply.report().device(), "cuda:0");
  ExpectRight(memory.data);
}

TEST_F(OnGpu, CallRunsOnTheGpuOfItsInput) {
  emulation::SetDevices(2, true);
  StartReal({"cuda:0", "cuda:1"});
  const OfGpu memory = ShareOf(1);
  FillOnes(memory.data);
  const RpcResult result =
      Call(channel_, Lent(memory.name).SerializeAsString());
  v1::QuantizeReply reply;
  ASSERT_TRUE(reply.ParseFromString(result.reply));
  EXPECT_EQ(reply.report().device(), "cuda:1");
  ExpectRight(memory.data);
  // With the input on one GPU and the outputs on another, the call runs on the
  // input's GPU.
  const OfGpu outputs = ShareOf(0);
  FillOnes(outputs.data);
  v1::QuantizeRequest request = Lent(outputs.name);
  request.mutable_memory()->mutable_inputs(0)->set_region(memory.name);
  ASSERT_TRUE(
      reply.ParseFromString(Call(channel_, request.SerializeAsString()).reply));
  EXPECT_EQ(reply.report().device(), "cuda:1");
  ExpectRight(outputs.data);
}

TEST_F(OnGpu, RefusesMemoryWithoutPeerAccess) {
  emulation::SetDevices(2, false);
  StartReal({"cuda:0"});
  std::byte* data = nullptr;
  const Offer offer = Allocate(1, &data);
  EXPECT_EQ(Peer(options_.memory_socket).Ask(offer, {}), OfferAnswer::kDevice);
  EXPECT_EQ(server_->memory_door()->use().regions, 0u);
}

TEST_F(OnGpu, RefusesFalseOffers) {
  StartReal({"cuda:0"});
  std::byte* data = nullptr;
  const Offer good = Allocate(0, &data);
  const auto ask = [&](const Offer& offer) {
    return Peer(options_.memory_socket).Ask(offer, {});
  };
  EXPECT_EQ(ask(good), OfferAnswer::kTaken);
  for (const uint64_t size : {uint64_t{0}, kSize - 1, kSize + 1, kSize * 2}) {
    Offer lie = good;
    lie.size = size;
    EXPECT_EQ(ask(lie), OfferAnswer::kSize) << size;
  }
  // Memory of a GPU that the machine does not have, and of no GPU.
  Offer lie = good;
  lie.uuid[3] ^= std::byte{1};
  EXPECT_EQ(ask(lie), OfferAnswer::kDevice);
  lie.uuid = {};
  EXPECT_EQ(ask(lie), OfferAnswer::kDevice);
  // An empty handle, an event's handle, and a handle of freed memory.
  lie = good;
  lie.ipc = {};
  EXPECT_EQ(ask(lie), OfferAnswer::kHandle);
  const OwnEvent event;
  lie.ipc = event.offer().ipc;
  EXPECT_EQ(ask(lie), OfferAnswer::kHandle);
  void* freed = nullptr;
  ASSERT_EQ(cudaMalloc(&freed, kSize), cudaSuccess);
  cudaIpcMemHandle_t handle = {};
  ASSERT_EQ(cudaIpcGetMemHandle(&handle, freed), cudaSuccess);
  cudaFree(freed);
  EXPECT_EQ(ask(OfferOfGpu(RegionKind::kCudaIpc, 0, kSize, &handle)),
            OfferAnswer::kHandle);
  EXPECT_TRUE(
      Eventually([&] { return server_->memory_door()->use().regions == 0; }));
}

}  // namespace
}  // namespace quantd
