// Tests of calls on CUDA memory that events order with queued work of this
// process. The server runs in another process and opens the events.
#include <unistd.h>

#include <chrono>
#include <future>
#include <vector>

#include "tests/client/memory/cuda_memory_fixture.h"
#include "tests/client/memory/gpu_stream.h"

namespace quantd {
namespace {

using std::chrono::milliseconds;

// Makes a call on memory in which the codes follow the input.
absl::StatusOr<Result> QuantizeIn(
    Client& client, const DeviceMemory& memory, const DeviceEvent* wait,
    const DeviceEvent* record, milliseconds deadline = milliseconds(30'000)) {
  CallOptions call;
  call.deadline = deadline;
  call.into = {
      {TensorKind::kRowwiseData, memory.bytes().subspan(kInput, kInput / 4)}};
  call.events = {wait, record};
  return client.Quantize(Rows(kRows), memory.bytes().first(kInput), Nvfp4(),
                         call);
}

TEST_F(CudaMemory, EventsOrderACallWithQueuedWork) {
  Serve();
  const auto client = Open();
  const auto memory = client->AllocateDevice(0, kInput * 2);
  ASSERT_THAT(memory, IsOk());
  GpuStream before;
  GpuStream after;
  void* const wrote = before.MakeEvent();
  void* const made = after.MakeEvent();
  const auto wait = client->RegisterEvent(0, wrote);
  const auto record = client->RegisterEvent(0, made);
  ASSERT_THAT(wait, IsOk());
  ASSERT_THAT(record, IsOk());
  for (uint32_t seed = 30; seed < 33; ++seed) {
    const Buffer x = Input(seed);
    before.Hold();
    before.Write(memory->bytes().data(), x);
    before.Record(wrote);
    auto call = std::async(std::launch::async, [&] {
      return QuantizeIn(*client, *memory, &*wait, &*record);
    });
    EXPECT_EQ(call.wait_for(milliseconds(200)), std::future_status::timeout);
    before.Release();
    const auto result = call.get();
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->transport(), Transport::kCuda);
    after.WaitFor(made);
    const Buffer codes =
        after.Read(memory->bytes().data() + kInput, kInput / 4);
    EXPECT_TRUE(BytesEq("codes",
                        Reference(x, Nvfp4()).bytes(TensorKind::kRowwiseData),
                        absl::MakeConstSpan(codes)));
  }
}

TEST_F(CudaMemory, DeadlineEndsTheWaitForAnEvent) {
  Serve();
  const auto client = Open();
  const auto memory = client->AllocateDevice(0, kInput * 2);
  const auto other = client->AllocateDevice(0, kInput * 2);
  ASSERT_THAT(memory, IsOk());
  ASSERT_THAT(other, IsOk());
  {
    GpuStream stream;
    void* const event = stream.MakeEvent();
    const auto wait = client->RegisterEvent(0, event);
    ASSERT_THAT(wait, IsOk());
    // An event that was never recorded counts as passed.
    EXPECT_THAT(QuantizeIn(*client, *memory, &*wait, nullptr), IsOk());
    stream.Hold();
    stream.Record(event);
    // Makes more calls than the server has slots.
    std::vector<std::future<absl::StatusOr<Result>>> calls;
    for (int i = 0; i < 8; ++i) {
      calls.push_back(std::async(std::launch::async, [&] {
        return QuantizeIn(*client, *memory, &*wait, nullptr,
                          milliseconds(2000));
      }));
    }
    EXPECT_TRUE(Works(*client, *other, 40));
    for (auto& call : calls) {
      EXPECT_THAT(call.get(), StatusIs(absl::StatusCode::kDeadlineExceeded));
    }
    stream.Release();
  }
  EXPECT_TRUE(Works(*client, *other, 41));
  EXPECT_TRUE(Works(*client, *memory, 42));
}

TEST_F(CudaMemory, RefusesEventsWithoutInterprocessSupport) {
  Serve();
  const auto client = Open();
  auto memory = client->AllocateDevice(0, kInput * 2);
  ASSERT_THAT(memory, IsOk());
  GpuStream stream;
  EXPECT_THAT(client->RegisterEvent(0, stream.MakeEvent(false)),
              StatusIs(kInvalid));
  EXPECT_THAT(client->RegisterEvent(0, nullptr), StatusIs(kInvalid));
  EXPECT_THAT(client->RegisterEvent(99, stream.MakeEvent()),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(QuantizeIn(*client, *memory, nullptr, nullptr), IsOk());
  const DeviceEvent none;
  EXPECT_THAT(QuantizeIn(*client, *memory, &none, nullptr), StatusIs(kInvalid));
  // A call on host memory cannot wait for an event.
  const auto event = client->RegisterEvent(0, stream.MakeEvent());
  ASSERT_THAT(event, IsOk());
  CallOptions call;
  call.events.record = &*event;
  EXPECT_THAT(client->Quantize(Rows(kRows), Input(50), Nvfp4(), call),
              StatusIs(kInvalid));
  // A local client cannot share events, and does not know those of another
  // client.
  const auto local = CreateClient("local:cuda:0");
  ASSERT_THAT(local, IsOk());
  EXPECT_THAT((*local)->RegisterEvent(0, stream.MakeEvent()),
              StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_THAT((*local)->Quantize(Rows(kRows), Input(50), Nvfp4(), call),
              StatusIs(kInvalid));
}

TEST_F(CudaMemory, SharesEventsAgainAfterAServerRestart) {
  Serve();
  const auto client = Open();
  const auto memory = client->AllocateDevice(0, kInput * 2);
  ASSERT_THAT(memory, IsOk());
  GpuStream stream;
  const auto wait = client->RegisterEvent(0, stream.MakeEvent());
  const auto record = client->RegisterEvent(0, stream.MakeEvent());
  ASSERT_THAT(wait, IsOk());
  ASSERT_THAT(record, IsOk());
  ASSERT_THAT(QuantizeIn(*client, *memory, &*wait, &*record), IsOk());
  process_->Signal(SIGKILL);
  process_->WaitForExit(10);
  Serve();
  std::this_thread::sleep_for(milliseconds(1100));
  EXPECT_THAT(QuantizeIn(*client, *memory, &*wait, &*record), IsOk());
}

// This is not a test: it is a process whose call waits for an event that never
// completes.
TEST_F(CudaMemory, DISABLED_WaitingVictim) {
  const auto client = OpenAsVictim();
  ASSERT_NE(client, nullptr);
  const auto memory = client->AllocateDevice(0, kInput * 2);
  ASSERT_THAT(memory, IsOk());
  GpuStream stream;
  void* const event = stream.MakeEvent();
  const auto wait = client->RegisterEvent(0, event);
  ASSERT_THAT(wait, IsOk());
  stream.Hold();
  stream.Record(event);
  ASSERT_EQ(write(3, "!", 1), 1);
  (void)QuantizeIn(*client, *memory, &*wait, nullptr);
}

TEST_F(CudaMemory, ServerSurvivesClientsKilledInAWait) {
  Serve();
  const auto client = Open();
  const auto memory = client->AllocateDevice(0, kInput * 2);
  ASSERT_THAT(memory, IsOk());
  ASSERT_TRUE(Works(*client, *memory, 60));
  const size_t descriptors = Descriptors();
  Victims victims("CudaMemory.DISABLED_WaitingVictim", Calls(), Socket());
  for (int i = 0; i < 20; ++i) {
    ASSERT_NO_FATAL_FAILURE(victims.EndOne(SIGKILL));
    ASSERT_TRUE(Works(*client, *memory, 61 + static_cast<uint32_t>(i)));
  }
  EXPECT_TRUE(Eventually([&] { return Descriptors() <= descriptors; }));
  process_->Signal(SIGTERM);
  EXPECT_EQ(process_->WaitForExit(30), 0) << process_->Log();
}

}  // namespace
}  // namespace quantd
