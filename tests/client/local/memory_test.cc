// Tests that a local client uses its caller's memory in place, for every memory
// type that its device supports, and that the results are the usual bytes.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device/devices.h"
#include "quantd/error.h"
#include "quantd/local.h"
#include "tests/testing/lendable.h"
#include "tests/testing/matchers.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;

class LocalMemory : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto client =
        CreateClient(GetParam() == "cuda" ? "local:cuda:0" : "local:cpu");
    ASSERT_THAT(client, IsOk());
    client_ = *std::move(client);
  }

  // Returns a tensor that a GPU processes in several slabs if `large`.
  static TensorDesc Tensor(bool large) {
    return {DType::kBF16, {large ? 20'000 : 300, 1024}, -1};
  }
  static Bytes Values(bool large) {
    const TensorDesc t = Tensor(large);
    return MakeTensor(Element::kBF16, t.shape[0] * t.shape[1],
                      Flavor::kGaussian, 3);
  }
  static std::vector<QuantizeOptions> Options() {
    std::vector<QuantizeOptions> all(5);
    all[0].format = Format::kNvfp4;
    all[0].rowwise_amax = {4.0f};
    all[0].rht.rowwise = true;
    all[1].format = Format::kNvfp4;
    all[1].usage = Usage::kBoth;
    all[2].format = Format::kMxfp8E4M3;
    all[3].format = Format::kNvfp4;
    all[3].profile = Profile::kModelopt047;
    all[4].format = Format::kFp8E4M3;
    all[4].fp8.scale = {2.0f};
    all[4].fp8.history = HistoryOptions{{1, 2, 3}};
    return all;
  }

  static absl::Span<const std::byte> AsBytes(const Bytes& bytes) {
    return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
  }
  static Result Reference(const TensorDesc& tensor, const Bytes& x,
                          const QuantizeOptions& options) {
    static const std::unique_ptr<Client> cpu = *CreateClient("local:cpu");
    return *cpu->Quantize(tensor, AsBytes(x), options);
  }

  std::unique_ptr<Client> client_;
};

TEST_P(LocalMemory, IsUsedInPlaceForEveryMemoryType) {
  for (const bool large : {false, true}) {
    const TensorDesc tensor = Tensor(large);
    const Bytes x = Values(large);
    for (const QuantizeOptions& options : Options()) {
      const auto plan = MakeQuantizePlan(tensor, options);
      ASSERT_THAT(plan, IsOk());
      const Result want = Reference(tensor, x, options);
      for (const LendableKind in : LendableKinds(GetParam())) {
        for (const LendableKind out : LendableKinds(GetParam())) {
          SCOPED_TRACE(testing::Message()
                       << Name(options.format) << ", from " << Name(in)
                       << " to " << Name(out) << (large ? ", large" : ""));
          Lendable input(in, plan->inputs()[0]);
          input.Fill(x);
          std::vector<Lendable> outputs;
          CallOptions call;
          for (const TensorSpec& spec : plan->outputs()) {
            outputs.emplace_back(out, spec);
            call.into.push_back({spec.kind, outputs.back().span()});
          }
          const auto got =
              client_->Quantize(tensor, input.span(), options, call);
          ASSERT_THAT(got, IsOk());
          EXPECT_TRUE(input.intact());
          for (size_t i = 0; i < outputs.size(); ++i) {
            const TensorKind kind = plan->outputs()[i].kind;
            EXPECT_TRUE(outputs[i].intact());
            EXPECT_TRUE(BytesEq(Name(kind), want.bytes(kind),
                                absl::MakeConstSpan(outputs[i].Bytes())));
          }
        }
      }
    }
  }
}

// A result may overwrite its own input.
TEST_P(LocalMemory, MayHoldInputAndOutputs) {
  for (const bool large : {false, true}) {
    const TensorDesc tensor = Tensor(large);
    const Bytes x = Values(large);
    for (const QuantizeOptions& options : Options()) {
      const auto plan = MakeQuantizePlan(tensor, options);
      ASSERT_THAT(plan, IsOk());
      const Result want = Reference(tensor, x, options);
      for (const LendableKind kind : LendableKinds(GetParam())) {
        SCOPED_TRACE(testing::Message()
                     << Name(options.format) << ", " << Name(kind));
        Lendable memory(kind, plan->inputs()[0]);
        memory.Fill(x);
        const TensorSpec& codes = plan->outputs()[0];
        CallOptions call;
        call.into = {{codes.kind, memory.span().first(codes.size)}};
        const auto got =
            client_->Quantize(tensor, memory.span(), options, call);
        ASSERT_THAT(got, IsOk());
        EXPECT_TRUE(memory.intact());
        auto made = memory.Bytes();
        made.resize(codes.size);
        EXPECT_TRUE(BytesEq("codes", want.bytes(codes.kind),
                            absl::MakeConstSpan(made)));
      }
    }
  }
}

// Memory used in place does not count against the budget.
TEST_P(LocalMemory, InPlaceMayExceedTheBudget) {
  ClientOptions small;
  small.local.memory_budget = 16 << 20;
  const auto client =
      CreateClient(GetParam() == "cuda" ? "local:cuda:0" : "local:cpu", small);
  ASSERT_THAT(client, IsOk());
  const TensorDesc tensor = Tensor(true);
  const Bytes x = Values(true);
  const QuantizeOptions options = Options()[0];
  const auto plan = MakeQuantizePlan(tensor, options);
  ASSERT_THAT(plan, IsOk());
  ASSERT_GT(plan->input_bytes(), small.local.memory_budget);
  const LendableKind kind =
      GetParam() == "cuda" ? LendableKind::kDevice : LendableKind::kPageable;
  Lendable input(kind, plan->inputs()[0]);
  input.Fill(x);
  std::vector<Lendable> outputs;
  CallOptions call;
  for (const TensorSpec& spec : plan->outputs()) {
    outputs.emplace_back(kind, spec);
    call.into.push_back({spec.kind, outputs.back().span()});
  }
  ASSERT_THAT((*client)->Quantize(tensor, input.span(), options, call), IsOk());
  const Result want = Reference(tensor, x, options);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TensorKind part = plan->outputs()[i].kind;
    EXPECT_TRUE(BytesEq(Name(part), want.bytes(part),
                        absl::MakeConstSpan(outputs[i].Bytes())));
  }
  // If the result overwrites its input, the input is copied, and the copy
  // counts against the budget.
  call.into = {
      {plan->outputs()[0].kind, input.span().first(plan->outputs()[0].size)}};
  EXPECT_EQ(
      GetServerError(
          (*client)->Quantize(tensor, input.span(), options, call).status())
          ->reason,
      ErrorReason::kTooLarge);
}

// The memory is pinned host memory if the client's device is a GPU, and
// ordinary memory otherwise.
TEST_P(LocalMemory, AllocatedByTheClientIsUsedInPlace) {
  auto memory = client_->AllocateHost(size_t{1} << 20);
  ASSERT_THAT(memory, IsOk());
  EXPECT_FALSE(memory->shared());
  EXPECT_EQ(IsPageLocked(memory->bytes()), GetParam() == "cuda");
  const TensorDesc tensor = Tensor(false);
  const Bytes x = Values(false);
  std::copy_n(AsBytes(x).begin(), x.size(), memory->bytes().begin());
  const auto got =
      client_->Quantize(tensor, memory->bytes().first(x.size()), Options()[0]);
  ASSERT_THAT(got, IsOk());
  EXPECT_EQ(got->transport(), Transport::kLocal);
  const TensorKind codes = TensorKind::kRowwiseData;
  EXPECT_TRUE(BytesEq("codes", Reference(tensor, x, Options()[0]).bytes(codes),
                      got->bytes(codes)));
}

TEST_P(LocalMemory, IsUsedInPlaceByDequantize) {
  const TensorDesc tensor = Tensor(true);
  const QuantizeOptions options = Options()[0];
  const Result made = Reference(tensor, Values(true), options);
  DequantizeOptions decode;
  decode.format = options.format;
  decode.output = DType::kF32;
  decode.inverse_rht = true;
  const auto plan = MakeDequantizePlan(tensor, decode);
  ASSERT_THAT(plan, IsOk());
  static const std::unique_ptr<Client> cpu = *CreateClient("local:cpu");
  const auto floats = [](absl::Span<const std::byte> bytes) {
    return absl::MakeConstSpan(reinterpret_cast<const float*>(bytes.data()),
                               bytes.size() / sizeof(float));
  };
  const QuantizedBytes ordinary = {
      made.bytes(TensorKind::kRowwiseData),
      made.bytes(TensorKind::kRowwiseScale),
      floats(made.bytes(TensorKind::kRowwiseAmax))};
  const auto want = cpu->Dequantize(tensor, ordinary, decode);
  ASSERT_THAT(want, IsOk());
  for (const LendableKind kind : LendableKinds(GetParam())) {
    SCOPED_TRACE(Name(kind));
    std::vector<Lendable> inputs;
    std::vector<absl::Span<const std::byte>> spans;
    for (const TensorSpec& spec : plan->inputs()) {
      const auto bytes = made.bytes(spec.kind);
      inputs.emplace_back(kind, spec);
      inputs.back().Fill(
          {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
      spans.push_back(inputs.back().span());
    }
    Lendable output(kind, plan->outputs()[0]);
    CallOptions call;
    call.into = {{TensorKind::kDequantized, output.span()}};
    ASSERT_THAT(
        client_->Dequantize(tensor, {spans[0], spans[1], floats(spans[2])},
                            decode, call),
        IsOk());
    EXPECT_TRUE(output.intact());
    EXPECT_TRUE(BytesEq("values", want->bytes(TensorKind::kDequantized),
                        absl::MakeConstSpan(output.Bytes())));
  }
}

std::vector<std::string> Devices() {
  std::vector<std::string> devices = {"cpu"};
  if (CudaUnavailableReason().empty()) devices.push_back("cuda");
  return devices;
}

INSTANTIATE_TEST_SUITE_P(Devices, LocalMemory, testing::ValuesIn(Devices()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace quantd
