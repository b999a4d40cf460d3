// Tests of a server in another process that uses CUDA memory of this one.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client/memory/cuda_driver.h"
#include "client/memory/door_connection.h"
#include "proto/memory/offer.h"
#include "quantd/error.h"
#include "tests/client/memory/cuda_memory_fixture.h"
#include "tests/client/memory/gpu_stream.h"

namespace quantd {
namespace {

using client::DoorConnection;
TEST_F(CudaMemory, IsUsedInPlace) {
  Serve();
  const auto client = Open();
  const Buffer x = Input(3);
  std::vector<QuantizeOptions> all(5, Nvfp4());
  all[1].usage = Usage::kBoth;
  all[1].rht.columnwise = true;
  all[2].format = Format::kMxfp8E4M3;
  all[2].usage = Usage::kBoth;
  all[3].profile = Profile::kModelopt047;
  all[4].format = Format::kFp8SquareE4M3;
  for (const QuantizeOptions& options : all) {
    const auto plan = MakeQuantizePlan(Rows(kRows), options);
    ASSERT_THAT(plan, IsOk());
    const Result want = Reference(x, options);
    for (const LendableKind kind :
         {LendableKind::kDevice, LendableKind::kDeviceOdd}) {
      Lendable input(kind, plan->inputs()[0]);
      input.Fill({reinterpret_cast<const uint8_t*>(x.data()), x.size()});
      std::vector<DeviceMemory> known;
      std::vector<Lendable> outputs;
      CallOptions call;
      for (const TensorSpec& spec : plan->outputs()) {
        outputs.emplace_back(kind, spec);
        call.into.push_back({spec.kind, outputs.back().span()});
      }
      const auto know = [&](const void* address) {
        auto memory = client->RegisterDevice(address);
        ASSERT_THAT(memory, IsOk());
        known.push_back(*std::move(memory));
      };
      know(input.span().data());
      for (const Lendable& output : outputs) know(output.span().data());
      const auto made =
          client->Quantize(Rows(kRows), input.span(), options, call);
      ASSERT_THAT(made, IsOk());
      EXPECT_EQ(made->transport(), Transport::kCuda);
      EXPECT_EQ(made->device(), "cuda:0");
      EXPECT_TRUE(input.intact());
      for (size_t i = 0; i < outputs.size(); ++i) {
        EXPECT_TRUE(outputs[i].intact());
        EXPECT_TRUE(BytesEq(Name(plan->outputs()[i].kind),
                            want.bytes(plan->outputs()[i].kind),
                            absl::MakeConstSpan(outputs[i].Bytes())));
      }
    }
  }
}

TEST_F(CudaMemory, CombinesWithHostMemory) {
  Serve();
  const auto client = Open();
  auto memory = client->AllocateDevice(0, kInput * 2);
  ASSERT_THAT(memory, IsOk());
  EXPECT_TRUE(Works(*client, *memory, 4));
  // Combines device inputs with host outputs, shared or not, and host inputs
  // with device outputs.
  const Buffer x = Input(5);
  const Result want = Reference(x, Nvfp4());
  CopyAnywhere(memory->bytes().data(), x.data(), x.size());
  const auto home =
      client->Quantize(Rows(kRows), memory->bytes().first(kInput), Nvfp4());
  ASSERT_THAT(home, IsOk());
  EXPECT_TRUE(BytesEq("codes", want.bytes(TensorKind::kRowwiseData),
                      home->bytes(TensorKind::kRowwiseData)));
  const HostMemory host = Allocate(*client, kInput);
  for (const bool shared : {false, true}) {
    std::copy(x.begin(), x.end(), host.bytes().begin());
    const auto codes = memory->bytes().subspan(kInput, kInput / 4);
    CallOptions call;
    call.into = {{TensorKind::kRowwiseData, codes}};
    const auto there = client->Quantize(
        Rows(kRows), shared ? absl::Span<const std::byte>(host.bytes()) : x,
        Nvfp4(), call);
    ASSERT_THAT(there, IsOk());
    EXPECT_EQ(there->transport(), Transport::kCuda);
    Buffer made(codes.size());
    CopyAnywhere(made.data(), codes.data(), made.size());
    EXPECT_TRUE(BytesEq("codes", want.bytes(TensorKind::kRowwiseData),
                        absl::MakeConstSpan(made)));
    EXPECT_TRUE(BytesEq("scales", want.bytes(TensorKind::kRowwiseScale),
                        there->bytes(TensorKind::kRowwiseScale)));
  }
}

TEST_F(CudaMemory, RefusesMemoryThatCannotBeShared) {
  Serve();
  const auto client = Open();
  auto memory = client->AllocateDevice(0, kInput * 2);
  ASSERT_THAT(memory, IsOk());
  const auto call_on = [&](size_t offset, size_t codes) {
    CallOptions call;
    call.into = {
        {TensorKind::kRowwiseData, memory->bytes().subspan(codes, kInput / 4)}};
    return client
        ->Quantize(Rows(kRows), memory->bytes().subspan(offset, kInput),
                   Nvfp4(), call)
        .status();
  };
  EXPECT_THAT(call_on(0, kInput), IsOk());
  EXPECT_THAT(call_on(1, kInput + 64), StatusIs(kInvalid));
  EXPECT_THAT(call_on(0, kInput / 2), StatusIs(kInvalid));
  EXPECT_THAT(client->AllocateDevice(0, size_t{1} << 45),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(client->AllocateDevice(99, 4096),
              StatusIs(absl::StatusCode::kNotFound));
  const Buffer host(4096);
  EXPECT_THAT(client->RegisterDevice(host.data()), StatusIs(kInvalid));
  EXPECT_THAT(client->RegisterDevice(nullptr), StatusIs(kInvalid));
  EXPECT_TRUE(Works(*client, *memory, 6));
}

TEST_F(CudaMemory, ServerWithoutThatGpuRefusesItsMemory) {
  Serve("cpu:0");
  const auto client = Open();
  const auto refused = client->AllocateDevice(0, 4096);
  EXPECT_THAT(refused, StatusIs(kInvalid));
  EXPECT_THAT(std::string(refused.status().message()),
              testing::HasSubstr("GPU"));
}

// The server uses only GPU 0.
TEST_F(CudaMemory, MemoryOfAnotherGpuIsCopiedOrRefused) {
  if (GpuCount() < 2) {
    GTEST_SKIP() << "PEER ACCESS IS NOT TESTED: there is one GPU here";
  }
  Serve();
  const auto client = Open();
  const auto memory = client->AllocateDevice(1, kInput * 2);
  if (memory.ok()) {
    EXPECT_TRUE(Works(*client, *memory, 21));
  } else {
    EXPECT_THAT(memory, StatusIs(kInvalid));
    EXPECT_THAT(std::string(memory.status().message()),
                testing::HasSubstr("peer"));
  }
  // No event can be registered for GPU 99, which does not exist.
  GpuStream stream;
  EXPECT_THAT(client->RegisterEvent(99, stream.MakeEvent()),
              StatusIs(absl::StatusCode::kNotFound));
}

// These offers of memory are inconsistent; the SDK never makes them.
TEST_F(CudaMemory, RefusesFalseOffers) {
  Serve();
  const auto client = Open();
  auto memory = client->AllocateDevice(0, kInput * 2);
  ASSERT_THAT(memory, IsOk());
  const auto driver = client::CudaDriver::Get();
  ASSERT_THAT(driver, IsOk());
  const auto found = (*driver)->Find(memory->bytes().data());
  ASSERT_THAT(found, IsOk());
  const auto exported = (*driver)->Export(*found);
  ASSERT_THAT(exported, IsOk());
  const auto offer = [&](const wire::Offer& o, int descriptor = -1) {
    return DoorConnection::Share({Socket()}, o, descriptor).status();
  };
  EXPECT_THAT(offer(exported->offer), IsOk());
  wire::Offer lie = exported->offer;
  lie.size *= 2;
  EXPECT_THAT(offer(lie), StatusIs(kInvalid));
  lie.size = 4096;
  EXPECT_THAT(offer(lie), StatusIs(kInvalid));
  lie.size = 0;
  EXPECT_THAT(offer(lie), StatusIs(kInvalid));
  lie = exported->offer;
  lie.uuid[3] ^= std::byte{1};
  EXPECT_THAT(offer(lie), StatusIs(kInvalid));
  std::mt19937 random(5);
  for (int i = 0; i < 50; ++i) {
    lie = exported->offer;
    for (int k = 0; k <= i; ++k) {
      lie.ipc[random() % lie.ipc.size()] = static_cast<std::byte>(random());
    }
    // Some bytes of a handle are unused, so changing them may go unnoticed.
    const absl::Status status = offer(lie);
    EXPECT_TRUE(status.ok() || status.code() == kInvalid) << status;
  }
  lie = exported->offer;
  lie.ipc = {};
  EXPECT_THAT(offer(lie), StatusIs(kInvalid));
  lie.kind = wire::RegionKind::kCudaDescriptor;
  EXPECT_THAT(offer(lie), StatusIs(kInvalid));  // without a descriptor
  EXPECT_THAT(offer(lie, STDIN_FILENO), StatusIs(kInvalid));
  EXPECT_THAT(offer(exported->offer, STDIN_FILENO), StatusIs(kInvalid));
  EXPECT_TRUE(Works(*client, *memory, 7));
}

TEST_F(CudaMemory, SharesExportedMemoryByItsDescriptor) {
  Serve();
  const auto client = Open();
  const absl::Span<std::byte> made = CreateExportable(kInput * 2);
  if (made.empty()) GTEST_SKIP() << "no exportable memory here";
  auto memory = client->RegisterDevice(made.data());
  ASSERT_THAT(memory, IsOk());
  EXPECT_GE(memory->bytes().size(), kInput * 2);
  EXPECT_TRUE(Works(*client, *memory, 8));
}

TEST_F(CudaMemory, DoesNotUseFreedMemory) {
  Serve();
  const auto client = Open();
  TensorSpec spec;
  spec.dtype = DType::kBF16;
  spec.size = kInput * 2;
  void* const data = AllocateOnDevice(kInput * 2);
  auto memory = client->RegisterDevice(data);
  ASSERT_THAT(memory, IsOk());
  EXPECT_TRUE(Works(*client, *memory, 9));
  FreeOnDevice(data);
  CallOptions call;
  const auto result = client->Quantize(
      Rows(kRows), memory->bytes().first(kInput), Nvfp4(), call);
  EXPECT_FALSE(result.ok());
  // New memory at the same address is not the registered memory.
  void* const again = AllocateOnDevice(kInput * 2);
  auto other = client->RegisterDevice(again);
  ASSERT_THAT(other, IsOk());
  EXPECT_TRUE(Works(*client, *other, 10));
  other = DeviceMemory();
  FreeOnDevice(again);
}

TEST_F(CudaMemory, SharesAgainAfterAServerRestart) {
  Serve();
  const auto client = Open();
  auto memory = client->AllocateDevice(0, kInput * 2);
  ASSERT_THAT(memory, IsOk());
  EXPECT_TRUE(Works(*client, *memory, 11));
  process_->Signal(SIGKILL);
  process_->WaitForExit(10);
  Serve();
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_TRUE(Works(*client, *memory, 12));
  process_->Signal(SIGKILL);
  process_->WaitForExit(10);
  CallOptions call;
  call.deadline = std::chrono::milliseconds(1000);
  EXPECT_FALSE(
      client
          ->Quantize(Rows(kRows), memory->bytes().first(kInput), Nvfp4(), call)
          .ok());
}

// This is not a test: it is a process that makes calls until it is killed.
TEST_F(CudaMemory, DISABLED_Victim) {
  const auto client = OpenAsVictim();
  ASSERT_NE(client, nullptr);
  const auto memory = client->AllocateDevice(0, size_t{256} << 20);
  ASSERT_THAT(memory, IsOk());
  ASSERT_EQ(write(3, "!", 1), 1);
  const TensorDesc tensor = Rows(100'000);
  CallOptions call;
  call.into = {{TensorKind::kRowwiseData,
                memory->bytes().subspan(100'000 * 2048, 100'000 * 512)}};
  while (client
             ->Quantize(tensor, memory->bytes().first(100'000 * 2048), Nvfp4(),
                        call)
             .ok()) {
  }
}

TEST_F(CudaMemory, ServerSurvivesKilledClients) {
  Serve();
  const auto client = Open();
  auto memory = client->AllocateDevice(0, kInput * 2);
  ASSERT_THAT(memory, IsOk());
  ASSERT_TRUE(Works(*client, *memory, 13));
  const size_t descriptors = Descriptors();
  const size_t before = FreeDeviceMemory();
  Victims victims("CudaMemory.DISABLED_Victim", Calls(), Socket());
  for (int i = 0; i < 30; ++i) {
    ASSERT_NO_FATAL_FAILURE(victims.EndOne(SIGKILL));
    ASSERT_TRUE(Works(*client, *memory, 14 + static_cast<uint32_t>(i)));
  }
  EXPECT_TRUE(Eventually([&] { return Descriptors() <= descriptors; }));
  // Each client had 256 MiB, and the server holds none of it.
  EXPECT_TRUE(Eventually([&] {
    return FreeDeviceMemory() + (size_t{128} << 20) > before;
  })) << before
      << " and now " << FreeDeviceMemory();
  process_->Signal(SIGTERM);
  EXPECT_EQ(process_->WaitForExit(30), 0) << process_->Log();
}

}  // namespace
}  // namespace quantd
