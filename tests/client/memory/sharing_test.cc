// Tests of how a client gets shared memory, and which transport its calls then
// use.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "quantd/local.h"
#include "tests/client/memory/sharing_fixture.h"

namespace quantd {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

TEST_F(Sharing, AllocatedMemoryIsSharedUntilItIsFreed) {
  Start();
  auto client = Open();
  HostMemory memory = Allocate(*client, 100'000);
  EXPECT_TRUE(memory.shared());
  EXPECT_EQ(memory.bytes().size(), 100'000u);
  EXPECT_EQ(memory.bytes().front(), std::byte{0});
  EXPECT_EQ(Mapped(), 1u);
  // Parts of shared memory are recognized by address, on any thread, also after
  // the owner was moved.
  const HostMemory owner = std::move(memory);
  EXPECT_TRUE(memory.bytes().empty());
  const Places places(owner, 32);
  Fill(places.input, 1);
  std::thread([&] {
    const auto result = places.Quantize(*client);
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->transport(), Transport::kShared);
    EXPECT_EQ(Name(result->transport()), "shared");
    EXPECT_EQ(result->bytes(TensorKind::kRowwiseData).data(),
              places.codes.data());
  }).join();
  // Other memory is sent by message.
  const std::vector<std::byte> copy(places.input.begin(), places.input.end());
  const auto result = client->Quantize(places.tensor, copy, Nvfp4());
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->transport(), Transport::kUnix);
  EXPECT_TRUE(
      BytesEq("codes", places.codes, result->bytes(TensorKind::kRowwiseData)));
}

// Results of inputs in shared memory are returned in shared memory, without a
// copy.
TEST_F(Sharing, ResultsOfSharedInputsAreShared) {
  Start();
  auto client = Open();
  const HostMemory memory = Allocate(*client, 4 << 20);
  const TensorDesc tensor = Rows(1024);
  const auto input = memory.bytes().first(2 << 20);
  Fill(input, 21);
  const std::vector<std::byte> copy(input.begin(), input.end());
  const auto plain = client->Quantize(tensor, copy, Nvfp4());
  ASSERT_THAT(plain, IsOk());
  EXPECT_EQ(plain->transport(), Transport::kUnix);
  const auto same = [&](const Result& result) {
    for (const TensorSpec& part : plain->parts()) {
      EXPECT_TRUE(BytesEq(Name(part.kind), plain->bytes(part.kind),
                          result.bytes(part.kind)));
    }
  };
  // Several results at a time have separate memory, which is reused.
  for (int round = 0; round < 5; ++round) {
    std::vector<Result> held;
    for (int i = 0; i < 4; ++i) {
      auto result = client->Quantize(tensor, input, Nvfp4());
      ASSERT_THAT(result, IsOk());
      EXPECT_EQ(result->transport(), Transport::kShared);
      held.push_back(*std::move(result));
    }
    for (const Result& result : held) same(result);
    EXPECT_EQ(Mapped(), 5u);
  }
  // One part goes to the caller's memory, the others to the client's.
  CallOptions call;
  const auto codes = memory.bytes().subspan(2 << 20, 1 << 19);
  call.into = {{TensorKind::kRowwiseData, codes}};
  auto result = client->Quantize(tensor, input, Nvfp4(), call);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->bytes(TensorKind::kRowwiseData).data(), codes.data());
  same(*result);
  // Results beyond the limit of shared memory arrive by message.
  std::vector<Result> many;
  for (int i = 0; i < 300; ++i) {
    auto one = client->Quantize(tensor, input, Nvfp4());
    ASSERT_THAT(one, IsOk());
    EXPECT_EQ(one->transport(), Transport::kShared);
    many.push_back(*std::move(one));
  }
  same(many.back());
  // Results may outlive the client.
  client.reset();
  same(*result);
  same(many.front());
}

TEST_F(Sharing, TakeHostReusesMemory) {
  Start();
  auto client = Open();
  const std::byte* first = nullptr;
  for (int i = 0; i < 20; ++i) {
    const auto memory = client->TakeHost(3'000'000 + i);
    ASSERT_THAT(memory, IsOk());
    EXPECT_TRUE(memory->shared());
    EXPECT_EQ(memory->bytes().size(), 3'000'000u + i);
    if (i == 0) first = memory->bytes().data();
    EXPECT_EQ(memory->bytes().data(), first);
    memory->bytes().back() = std::byte{1};
  }
  EXPECT_EQ(Mapped(), 1u);
  // Kept memory is released for new requests: there are 128 MiB in all.
  std::vector<HostMemory> most;
  for (size_t mib = 20; mib < 25; ++mib) {
    auto memory = client->TakeHost(mib << 20);
    ASSERT_THAT(memory, IsOk());
    most.push_back(*std::move(memory));
  }
  most.clear();
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(client->TakeHost((60 + i) << 20), IsOk());
  }
  EXPECT_THAT(client->TakeHost(200 << 20),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(Sharing, FreedMemoryIsUnmapped) {
  Start();
  const size_t before = Descriptors();
  auto client = Open();
  for (int i = 0; i < 20; ++i) {
    // Each allocation is half of the limit, so earlier ones must have been
    // released.
    ASSERT_TRUE(Eventually([&] { return Mapped() == 0; }));
    Allocate(*client, size_t{64} << 20);
  }
  client.reset();
  EXPECT_TRUE(Eventually([&] { return Mapped() == 0; }));
  EXPECT_TRUE(Eventually([&] { return Descriptors() == before; }))
      << before << " and now " << Descriptors();
}

TEST_F(Sharing, OutputOverTheInputIsNotShared) {
  Start();
  auto client = Open();
  const HostMemory memory = Allocate(*client, 1 << 20);
  const absl::Span<std::byte> input = memory.bytes().first(64 * 2048);
  Fill(input, 2);
  const std::vector<std::byte> copy(input.begin(), input.end());
  const auto expected = client->Quantize(Rows(64), copy, Nvfp4());
  const CallOptions call = {
      .into = {{TensorKind::kRowwiseData, input.first(input.size() / 4)}}};
  const auto got = client->Quantize(Rows(64), input, Nvfp4(), call);
  ASSERT_THAT(expected, IsOk());
  ASSERT_THAT(got, IsOk());
  // The input is shared, but not the output that overwrites it.
  EXPECT_EQ(got->transport(), Transport::kShared);
  EXPECT_TRUE(BytesEq("codes", expected->bytes(TensorKind::kRowwiseData),
                      got->bytes(TensorKind::kRowwiseData)));
}

TEST_F(Sharing, RefusesMemoryThatCannotBeShared) {
  auto client = Open();
  EXPECT_THAT(client->AllocateHost(4096),
              StatusIs(absl::StatusCode::kUnavailable));
  Start();
  EXPECT_THAT(client->AllocateHost(0), StatusIs(kInvalid));
  EXPECT_THAT(client->AllocateHost(size_t{129} << 20),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(client->AllocateHost(SIZE_MAX),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(Mapped(), 0u);
  const auto two = Client::Create(Calls() + "," + Calls() + "2",
                                  {.memory_socket = Socket()});
  EXPECT_THAT(two, StatusIs(kInvalid));
  EXPECT_EQ(FieldOf(two.status()), "memory_socket");
}

TEST_F(Sharing, SharesMemoryOfTheCaller) {
  Start();
  auto client = Open();
  constexpr size_t kSize = 1 << 20;
  const int memfd = memfd_create("theirs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(memfd, kSize), 0);
  auto* const data = static_cast<std::byte*>(
      mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0));
  ASSERT_NE(data, MAP_FAILED);
  const absl::Span<std::byte> mapping(data, kSize);
  EXPECT_THAT(client->RegisterHost(memfd, mapping), StatusIs(kInvalid));
  EXPECT_THAT(client->RegisterHost(-1, mapping), StatusIs(kInvalid));
  ASSERT_EQ(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  // The memfd is sealed, but has no pages yet.
  EXPECT_THAT(client->RegisterHost(memfd, mapping), StatusIs(kInvalid));
  Fill(mapping, 3);
  EXPECT_THAT(client->RegisterHost(memfd, mapping.first(4096)),
              StatusIs(kInvalid));
  auto memory = client->RegisterHost(memfd, mapping);
  ASSERT_THAT(memory, IsOk());
  EXPECT_EQ(Places(*memory, 128).Quantize(*client)->transport(),
            Transport::kShared);
  *memory = HostMemory();
  EXPECT_EQ(Places(HostMemory(mapping, nullptr, false), 128)
                .Quantize(*client)
                ->transport(),
            Transport::kUnix);
  // Memory registered for reading takes no output, which arrives by message.
  memory = client->RegisterHost(memfd, mapping, HostUse::kRead);
  close(memfd);
  ASSERT_THAT(memory, IsOk());
  const Places places(*memory, 128);
  const auto result = places.Quantize(*client);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->transport(), Transport::kShared);
  EXPECT_NE(ReadFile("/proc/" + std::to_string(process_->pid()) + "/maps")
                .find("r--s"),
            std::string::npos);
  *memory = HostMemory();
  munmap(data, kSize);
}

TEST_F(Sharing, CallsCopyWithoutAMemorySocket) {
  Start(false);
  auto client = Client::Create(Calls());
  ASSERT_THAT(client, IsOk());
  const HostMemory memory = Allocate(**client, 1 << 20);
  EXPECT_FALSE(memory.shared());
  EXPECT_EQ(Places(memory, 128).Quantize(**client)->transport(),
            Transport::kUnix);
}

}  // namespace
}  // namespace quantd
