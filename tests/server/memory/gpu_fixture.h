// A server in this process with emulated GPUs, and GPU memory and events shared
// with it. Handles of emulated GPUs are valid only within a process.
#ifndef QUANTD_TESTS_SERVER_MEMORY_GPU_FIXTURE_H_
#define QUANTD_TESTS_SERVER_MEMORY_GPU_FIXTURE_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulation/runtime.h"
#include "tests/emulation/streams.h"
#include "tests/server/memory/ranges_fixture.h"

namespace quantd {

inline Offer OfferOfGpu(RegionKind kind, int gpu, uint64_t size,
                        const void* handle) {
  Offer offer = {kind, false, size};
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, gpu);
  std::memcpy(offer.uuid.data(), &properties.uuid, offer.uuid.size());
  std::memcpy(offer.ipc.data(), handle, offer.ipc.size());
  return offer;
}

// An event of a GPU, owned by this object.
class OwnEvent {
 public:
  explicit OwnEvent(int gpu = 0, unsigned flags = cudaEventInterprocess |
                                                  cudaEventDisableTiming)
      : gpu_(gpu) {
    cudaEventCreateWithFlags(&event_, flags);
  }
  ~OwnEvent() { cudaEventDestroy(event_); }
  OwnEvent(const OwnEvent&) = delete;
  cudaEvent_t get() const { return event_; }
  Offer offer() const {
    cudaIpcEventHandle_t handle = {};
    EXPECT_EQ(cudaIpcGetEventHandle(&handle, event_), cudaSuccess);
    return OfferOfGpu(RegionKind::kCudaEvent, gpu_, 0, &handle);
  }
  void Hold(bool held) { emulation::Hold(event_, held); }
  int records() const { return emulation::Records(event_); }

 private:
  const int gpu_;
  cudaEvent_t event_ = nullptr;
};

class OnGpu : public Ranges {
 protected:
  ~OnGpu() override { emulation::SetDevices(1, true); }
  void TearDown() override {
    Ranges::TearDown();
    server_.reset();
    for (void* memory : allocated_) cudaFree(memory);
  }

  // GPU memory that the server has mapped.
  struct OfGpu {
    std::unique_ptr<Peer> peer;
    std::string name;
    std::byte* data = nullptr;
  };
  Offer Allocate(int gpu, std::byte** data) {
    EXPECT_EQ(cudaSetDevice(gpu), cudaSuccess);
    void* made = nullptr;
    EXPECT_EQ(cudaMalloc(&made, kSize), cudaSuccess);
    allocated_.push_back(made);
    *data = static_cast<std::byte*>(made);
    cudaIpcMemHandle_t handle = {};
    EXPECT_EQ(cudaIpcGetMemHandle(&handle, made), cudaSuccess);
    return OfferOfGpu(RegionKind::kCudaIpc, gpu, kSize, &handle);
  }
  OfGpu ShareOf(int gpu) {
    OfGpu memory;
    const Offer offer = Allocate(gpu, &memory.data);
    memory.peer = std::make_unique<Peer>(options_.memory_socket);
    EXPECT_EQ(memory.peer->Ask(offer, {}), OfferAnswer::kTaken);
    memory.name = memory.peer->name;
    return memory;
  }
  std::string ShareEvent(Peer& peer, const OwnEvent& event) const {
    EXPECT_EQ(peer.Ask(event.offer(), {}), OfferAnswer::kTaken);
    return peer.name;
  }
  // Writes bf16 ones as input, and fills the outputs with other bytes.
  static void FillOnes(std::byte* data) {
    const v1::QuantizeRequest ones = QuantizeOnes(kRows);
    std::memcpy(data, ones.payload().data(), kInput);
    std::memset(data + kInput, 0xa5, kCodes + kScales);
  }
  void ExpectRight(const std::byte* data) {
    v1::QuantizeReply plain;
    ASSERT_TRUE(plain.ParseFromString(
        Call(channel_, QuantizeOnes(kRows).SerializeAsString()).reply));
    EXPECT_EQ(std::memcmp(data + kInput, plain.payload().data(), kCodes), 0);
  }

 private:
  std::vector<void*> allocated_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_SERVER_MEMORY_GPU_FIXTURE_H_
