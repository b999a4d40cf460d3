// Tests of clients' CUDA events on emulated GPUs: calls that wait for them or
// record them, and events that never complete.
#include <sys/socket.h>

#include <thread>

#include "tests/server/memory/gpu_fixture.h"

namespace quantd {
namespace {

using grpc::StatusCode;

class GpuEvents : public OnGpu {
 protected:
  void Serve() {
    StartReal({"cuda:0"});
    memory_ = ShareOf(0);
    FillOnes(memory_.data);
    peer_ = std::make_unique<Peer>(options_.memory_socket);
    ready_ = ShareEvent(*peer_, own_ready_);
    done_ = ShareEvent(*peer_, own_done_);
  }
  v1::QuantizeRequest Ordered() const {
    v1::QuantizeRequest request = Lent(memory_.name);
    request.mutable_memory()->set_wait_event(ready_);
    request.mutable_memory()->set_record_event(done_);
    return request;
  }
  // Starts a call whose event does not complete until the test releases it.
  // Returns when the server waits for the event.
  std::thread BeginWaiting(RpcResult* result) {
    own_ready_.Hold(true);
    std::thread call(
        [=, this] { *result = Call(channel_, Ordered().SerializeAsString()); });
    EXPECT_TRUE(Eventually([&] { return server_->calls().accepted() == 1; }));
    return call;
  }
  // Returns whether the codes are unchanged.
  bool Untouched() const {
    return std::all_of(memory_.data + kInput, memory_.data + kInput + kCodes,
                       [](std::byte b) { return b == std::byte{0xa5}; });
  }
  size_t events() const { return server_->memory_door()->use().events; }

  OwnEvent own_ready_;
  OwnEvent own_done_;
  OfGpu memory_;
  std::unique_ptr<Peer> peer_;
  std::string ready_;
  std::string done_;
};

TEST_F(GpuEvents, CallWaitsForOneEventAndRecordsAnother) {
  Serve();
  RpcResult result;
  std::thread call = BeginWaiting(&result);
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_TRUE(Untouched());
  EXPECT_EQ(own_done_.records(), 0);
  EXPECT_EQ(server_->calls().accepted(), 1u);
  own_ready_.Hold(false);
  call.join();
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(own_done_.records(), 1);
  EXPECT_EQ(own_ready_.records(), 0);
  ExpectRight(memory_.data);
  // A completed event causes no wait. Either event may be used alone.
  for (int i = 0; i < 2; ++i) {
    FillOnes(memory_.data);
    v1::QuantizeRequest request = Ordered();
    if (i == 0) request.mutable_memory()->clear_record_event();
    if (i == 1) request.mutable_memory()->clear_wait_event();
    result = Call(channel_, request.SerializeAsString());
    ASSERT_TRUE(result.status.ok()) << result.status.error_message();
    EXPECT_EQ(own_done_.records(), 1 + i);
    ExpectRight(memory_.data);
  }
}

TEST_F(GpuEvents, EventThatNeverCompletesDelaysNoOtherCall) {
  options_.slots = 1;
  Serve();
  own_ready_.Hold(true);
  const std::string waits = Ordered().SerializeAsString();
  std::vector<std::unique_ptr<RpcCall>> waiting;
  for (int i = 0; i < 20; ++i) {
    waiting.push_back(std::make_unique<RpcCall>(channel_, RpcOptions{}));
    ASSERT_TRUE(waiting.back()->Send(waits));
  }
  EXPECT_TRUE(Eventually([&] { return server_->calls().accepted() == 20; }));
  const OfGpu others = ShareOf(0);
  FillOnes(others.data);
  EXPECT_TRUE(
      Call(channel_, Lent(others.name).SerializeAsString()).status.ok());
  ExpectRight(others.data);
  // The wait ends with the call.
  RpcOptions soon;
  soon.deadline = absl::Milliseconds(100);
  EXPECT_EQ(Call(channel_, waits, soon).status.error_code(),
            StatusCode::DEADLINE_EXCEEDED);
  for (auto& call : waiting) {
    call->Cancel();
    EXPECT_EQ(call->Finish().status.error_code(), StatusCode::CANCELLED);
  }
  EXPECT_TRUE(Eventually([&] { return server_->calls().accepted() == 0; }));
  EXPECT_TRUE(Untouched());
  EXPECT_EQ(own_done_.records(), 0);
}

TEST_F(GpuEvents, WaitsHaveTheTimeLimitOfReceiving) {
  options_.max_receive = absl::Milliseconds(200);
  Serve();
  own_ready_.Hold(true);
  const RpcResult result = Call(channel_, Ordered().SerializeAsString());
  EXPECT_EQ(result.status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  ASSERT_TRUE(result.detail.has_value());
  EXPECT_EQ(result.detail->reason(), v1::ErrorDetail::REASON_DEADLINE);
  EXPECT_NE(result.status.error_message().find("memory.wait_event"),
            std::string::npos);
}

TEST_F(GpuEvents, WaitingCallKeepsItsEventAndMemory) {
  Serve();
  RpcResult result;
  std::thread call = BeginWaiting(&result);
  absl::SleepFor(absl::Milliseconds(20));
  // The connections that shared event and memory are closed.
  shutdown(peer_->socket(), SHUT_WR);
  shutdown(memory_.peer->socket(), SHUT_WR);
  RpcOptions soon;
  soon.deadline = absl::Milliseconds(100);
  ASSERT_TRUE(Eventually([&] {
    const auto refused =
        Call(channel_, Lent(memory_.name).SerializeAsString(), soon);
    return refused.detail &&
           refused.detail->field() == "memory.inputs[0].region";
  }));
  EXPECT_EQ(events(), 2u);
  char end = 0;
  EXPECT_EQ(recv(peer_->socket(), &end, 1, MSG_DONTWAIT), -1);
  own_ready_.Hold(false);
  call.join();
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(own_done_.records(), 1);
  EXPECT_EQ(recv(peer_->socket(), &end, 1, 0), 0);
  EXPECT_EQ(events(), 0u);
}

TEST_F(GpuEvents, DrainEndsWaitingCalls) {
  options_.drain_timeout = absl::Milliseconds(200);
  Serve();
  RpcResult result;
  std::thread call = BeginWaiting(&result);
  EXPECT_FALSE(server_->Drain(absl::ZeroDuration()));
  call.join();
  EXPECT_FALSE(result.status.ok());
  EXPECT_FALSE(server_->stuck());
  server_.reset();
}

TEST_F(GpuEvents, FailedCallRecordsNoEvent) {
  Serve();
  v1::QuantizeRequest request = Ordered();
  request.mutable_options()->set_non_finite(v1::NON_FINITE_REJECT);
  memory_.data[0] = std::byte{0x80};
  memory_.data[1] = std::byte{0x7f};  // 0x7f80 is Inf
  EXPECT_EQ(Call(channel_, request.SerializeAsString()).status.error_code(),
            StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(own_done_.records(), 0);
}

TEST_F(GpuEvents, CallWithAnEmptyTensorRecordsItsEvent) {
  Serve();
  v1::QuantizeRequest request = Ordered();
  request.mutable_tensor()->set_shape(0, 0);
  v1::LentMemory* const memory = request.mutable_memory();
  memory->mutable_inputs(0)->set_size(0);
  memory->mutable_outputs(0)->mutable_range()->set_size(0);
  memory->mutable_outputs()->RemoveLast();
  const RpcResult result = Call(channel_, request.SerializeAsString());
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(own_done_.records(), 1);
}

TEST_F(GpuEvents, RefusesNamesThatAreNotEvents) {
  Serve();
  std::string other = ready_;
  other[15] ^= 1;
  std::string gone;
  {
    Peer peer(options_.memory_socket);
    gone = ShareEvent(peer, own_ready_);
  }
  ASSERT_TRUE(Eventually([&] { return events() == 2; }));
  const Shared host = Share();
  // An unknown name, a region's name and another connection's event give the
  // same error, so that an error does not reveal which names exist.
  for (const std::string& name :
       {other, gone, memory_.name, host.name, ready_.substr(1), ready_ + "x",
        std::string(16, '\0'), std::string(1000, 'x')}) {
    v1::QuantizeRequest request = Ordered();
    request.mutable_memory()->set_wait_event(name);
    ExpectUnknownEvent(request, "memory.wait_event");
    request = Ordered();
    request.mutable_memory()->set_record_event(name);
    ExpectUnknownEvent(request, "memory.record_event");
  }
  v1::QuantizeRequest request = Lent(ready_);
  ExpectUnknown(request, "memory.inputs[0].region");
  EXPECT_TRUE(Untouched());
}

TEST_F(GpuEvents, MustBelongToTheGpuOfTheMemory) {
  emulation::SetDevices(2, true);
  StartReal({"cuda:0", "cuda:1", "cpu:0"});
  const OfGpu memory = ShareOf(0);
  FillOnes(memory.data);
  const OwnEvent of_other(1);
  Peer peer(options_.memory_socket);
  const std::string name = ShareEvent(peer, of_other);
  v1::QuantizeRequest request = Lent(memory.name);
  request.mutable_memory()->set_wait_event(name);
  ExpectRefused(request, "memory.wait_event", "an event of cuda:0",
                "one of cuda:1");
  request.mutable_memory()->clear_wait_event();
  request.mutable_memory()->set_record_event(name);
  ExpectRefused(request, "memory.record_event", "an event of cuda:0",
                "one of cuda:1");
  // Tensors in host memory may run on a CPU.
  const Shared host = Share();
  request = Lent(host.name);
  request.mutable_memory()->set_record_event(name);
  ExpectRefused(request, "memory.record_event",
                "none, as the call's memory is the host's", "one of cuda:1");
  EXPECT_EQ(of_other.records(), 0);
}

TEST_F(GpuEvents, RefusesInvalidOffers) {
  emulation::SetDevices(2, true);
  const int before = emulation::Events();
  StartReal({"cuda:0"});
  const int opened = emulation::Events();
  const auto ask = [&](const Offer& offer) {
    return Peer(options_.memory_socket).Ask(offer, {});
  };
  const Offer good = own_ready_.offer();
  EXPECT_EQ(ask(good), OfferAnswer::kTaken);
  // An event of a GPU that the server does not use.
  const OwnEvent of_other(1);
  EXPECT_EQ(ask(of_other.offer()), OfferAnswer::kDevice);
  Offer lie = good;
  lie.uuid[3] ^= std::byte{1};
  EXPECT_EQ(ask(lie), OfferAnswer::kDevice);
  lie = good;
  lie.ipc = {};
  EXPECT_EQ(ask(lie), OfferAnswer::kHandle);
  // Offers a memory handle as an event, and an event handle as memory.
  std::byte* data = nullptr;
  const Offer memory = Allocate(0, &data);
  lie.ipc = memory.ipc;
  EXPECT_EQ(ask(lie), OfferAnswer::kHandle);
  lie = good;
  lie.kind = RegionKind::kCudaIpc;
  EXPECT_EQ(ask(lie), OfferAnswer::kHandle);
  lie = good;
  lie.size = 1;
  EXPECT_EQ(ask(lie), OfferAnswer::kMalformed);
  lie = good;
  lie.read_only = true;
  EXPECT_EQ(ask(lie), OfferAnswer::kMalformed);
  const Descriptor memfd = Memfd(kPage, kPage);
  EXPECT_EQ(Peer(options_.memory_socket).Ask(good, {memfd.get()}),
            OfferAnswer::kDescriptors);
  EXPECT_TRUE(Eventually([&] { return events() == 0; }));
  EXPECT_EQ(emulation::Events(), opened + 1);  // of_other
  EXPECT_GE(opened, before);
}

TEST_F(GpuEvents, CountTowardsTheLimitOfRegions) {
  StartReal({"cuda:0"});
  const int before = emulation::Events();
  {
    Peer peer(options_.memory_socket);
    for (int i = 0; i < 64; ++i) {
      ASSERT_EQ(peer.Ask(own_ready_.offer(), {}), OfferAnswer::kTaken);
    }
    EXPECT_EQ(peer.Ask(own_ready_.offer(), {}), OfferAnswer::kTooMuch);
    EXPECT_EQ(peer.Offered(Memfd(kPage, kPage), kPage), OfferAnswer::kTooMuch);
    EXPECT_EQ(events(), 64u);
    EXPECT_EQ(emulation::Events(), before + 64);
  }
  EXPECT_TRUE(Eventually([&] { return events() == 0; }));
  EXPECT_EQ(emulation::Events(), before);
}

}  // namespace
}  // namespace quantd
