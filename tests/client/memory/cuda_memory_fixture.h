// A server in another process that uses CUDA memory of this process.
#ifndef QUANTD_TESTS_CLIENT_MEMORY_CUDA_MEMORY_FIXTURE_H_
#define QUANTD_TESTS_CLIENT_MEMORY_CUDA_MEMORY_FIXTURE_H_

#include <signal.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/device/devices.h"
#include "quantd/local.h"
#include "tests/client/memory/sharing_fixture.h"
#include "tests/client/memory/victims.h"
#include "tests/testing/lendable.h"

namespace quantd {

using Buffer = std::vector<std::byte>;

inline constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
inline constexpr int64_t kRows = 512;
inline constexpr size_t kInput = kRows * 2048;

class CudaMemory : public Sharing {
 protected:
  void SetUp() override {
    if (const std::string why = CudaUnavailableReason(); !why.empty()) {
      GTEST_SKIP() << "CUDA MEMORY IS NOT TESTED: " << why;
    }
  }
  void Serve(const std::string& device = "cuda:0") {
    process_ = std::make_unique<bench::ServerProcess>(std::vector<std::string>{
        bench::FindQuantd(), "--listen", Calls(), "--device", device,
        "--drain-delay-ms", "0", "--memory-socket", Socket()});
    ASSERT_TRUE(process_->running()) << process_->Log();
  }
  static Buffer Input(uint32_t seed) {
    Buffer bytes(kInput);
    Fill(absl::MakeSpan(bytes), seed);
    return bytes;
  }
  static Result Reference(const Buffer& x, const QuantizeOptions& options) {
    static const std::unique_ptr<Client> cpu = *CreateClient("local:cpu");
    return *cpu->Quantize(Rows(kRows), x, options);
  }
  // Makes a call with input and codes in GPU memory, and checks the result.
  static testing::AssertionResult Works(Client& client,
                                        const DeviceMemory& memory,
                                        uint32_t seed) {
    const Buffer x = Input(seed);
    CopyAnywhere(memory.bytes().data(), x.data(), x.size());
    CallOptions call;
    const auto codes = memory.bytes().subspan(kInput, kInput / 4);
    call.into = {{TensorKind::kRowwiseData, codes}};
    const auto result = client.Quantize(
        Rows(kRows), memory.bytes().first(kInput), Nvfp4(), call);
    if (!result.ok()) return testing::AssertionFailure() << result.status();
    if (result->transport() != Transport::kCuda) {
      return testing::AssertionFailure() << Name(result->transport());
    }
    Buffer made(codes.size());
    CopyAnywhere(made.data(), codes.data(), made.size());
    const Result want = Reference(x, Nvfp4());
    if (const auto same =
            BytesEq("scales", want.bytes(TensorKind::kRowwiseScale),
                    result->bytes(TensorKind::kRowwiseScale));
        !same) {
      return same;
    }
    return BytesEq("codes", want.bytes(TensorKind::kRowwiseData),
                   absl::MakeConstSpan(made));
  }
  // In a process of Victims, returns a client of the server that
  // QUANTD_VICTIM_TARGET names.
  static std::unique_ptr<Client> OpenAsVictim() {
    const char* const target = std::getenv("QUANTD_VICTIM_TARGET");
    const char* const socket = std::getenv("QUANTD_VICTIM_SOCKET");
    if (target == nullptr || socket == nullptr) return nullptr;
    auto client = CreateClient(target, {.memory_socket = socket});
    return client.ok() ? *std::move(client) : nullptr;
  }
};

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_MEMORY_CUDA_MEMORY_FIXTURE_H_
