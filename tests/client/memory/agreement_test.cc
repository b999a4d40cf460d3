// Compares calls with shared memory with calls by messages, between two
// processes. Every byte must be equal.
#include <memory>
#include <string>
#include <vector>

#include "quantd/client.h"
#include "tests/bench/rpc_process.h"
#include "tests/client/temp_dir.h"
#include "tests/client/two_ways.h"
#include "tests/kernels/device/plan_rows.h"
#include "tests/testing/matchers.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using Bytes = absl::Span<const std::byte>;

// Hands out parts of one block, one after the other. Each part has the least
// alignment that its element type allows.
class Arena {
 public:
  explicit Arena(absl::Span<std::byte> bytes) : bytes_(bytes) {}
  absl::Span<std::byte> Take(size_t size, size_t element) {
    const size_t start = (used_ + 63) / 64 * 64 + element;
    used_ = start + size;
    return bytes_.subspan(start, size);
  }

 private:
  const absl::Span<std::byte> bytes_;
  size_t used_ = 0;
};

class SharedAgreement : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new TempDir;
    const std::string socket = *directory_ / "memory";
    process_ = new bench::ServerProcess({bench::FindQuantd(), "--listen",
                                         "unix:" + (*directory_ / "calls"),
                                         "--device", "cpu:0", "--memory-budget",
                                         "64MiB", "--memory-socket", socket});
    ASSERT_TRUE(process_->running()) << process_->Log();
    auto plain = Client::Create(process_->address());
    ASSERT_THAT(plain, IsOk());
    plain_ = *std::move(plain);
    auto client =
        Client::Create(process_->address(), {.memory_socket = socket});
    ASSERT_THAT(client, IsOk());
    client_ = *std::move(client);
    auto memory = client_->AllocateHost(size_t{32} << 20);
    ASSERT_THAT(memory, IsOk());
    memory_ = *std::move(memory);
  }
  static void TearDownTestSuite() {
    memory_ = HostMemory();
    client_.reset();
    plain_.reset();
    delete process_;
    delete directory_;
  }

  // Makes the inputs of a plan, in ordinary memory; the caller copies them to
  // shared memory.
  static std::vector<oracle::Bytes> InputsOf(const Plan& plan, uint64_t seed) {
    std::vector<oracle::Bytes> inputs;
    for (const TensorSpec& input : plan.inputs()) {
      inputs.push_back(RandomBytes(static_cast<int64_t>(input.size), seed));
    }
    return inputs;
  }

  static void ExpectSame(const Plan& plan) {
    // Skips shapes too large to compute.
    if (plan.input_bytes() + plan.output_bytes() > memory_.bytes().size() / 2) {
      return;
    }
    const std::vector<oracle::Bytes> inputs = InputsOf(plan, calls_);
    std::vector<Bytes> theirs;
    std::vector<Bytes> shared;
    Arena arena(memory_.bytes());
    for (size_t i = 0; i < inputs.size(); ++i) {
      theirs.push_back({reinterpret_cast<const std::byte*>(inputs[i].data()),
                        inputs[i].size()});
      const auto to =
          arena.Take(inputs[i].size(), SizeOf(plan.inputs()[i].dtype));
      std::copy(theirs[i].begin(), theirs[i].end(), to.begin());
      shared.push_back(to);
    }
    const auto expected = Ask(*plain_, plan, theirs, {});
    // In successive calls, all outputs are in shared memory, all but one, or
    // none.
    CallOptions call;
    const size_t turn = calls_++ % 4;
    for (size_t i = 0; i < plan.outputs().size(); ++i) {
      const TensorSpec& spec = plan.outputs()[i];
      if (turn == 3 || turn == i + 1) continue;
      const auto to = arena.Take(spec.size, SizeOf(spec.dtype));
      std::fill(to.begin(), to.end(), std::byte{0xa5});
      call.into.push_back({spec.kind, to});
    }
    const auto got = Ask(*client_, plan, shared, call);
    ASSERT_EQ(got.status().code(), expected.status().code()) << got.status();
    if (!expected.ok()) return;
    EXPECT_EQ(expected->transport(), Transport::kUnix);
    EXPECT_EQ(got->transport(), plan.input_bytes() == 0 && call.into.empty()
                                    ? Transport::kUnix
                                    : Transport::kShared);
    ExpectSameParts(*expected, *got);
    // Sends the input by message and takes the outputs in shared memory.
    if (turn != 0) return;
    const auto half = Ask(*client_, plan, theirs, call);
    ASSERT_THAT(half, IsOk());
    EXPECT_EQ(half->transport(), Transport::kShared);
    ExpectSameParts(*expected, *half);
  }

  static inline TempDir* directory_ = nullptr;
  static inline bench::ServerProcess* process_ = nullptr;
  static inline std::unique_ptr<Client> plain_;
  static inline std::unique_ptr<Client> client_;
  static inline HostMemory memory_;
  static inline size_t calls_ = 0;
};

TEST_F(SharedAgreement, Quantize) {
  ForQuantizeRows(1, [](const QuantizeRow& row) {
    SCOPED_TRACE(row.format.name);
    SCOPED_TRACE(row.settings);
    if (!HasFatalFailure()) ExpectSame(row.plan);
  });
  EXPECT_GT(calls_, 500u);
}

TEST_F(SharedAgreement, Dequantize) {
  ForDequantizeRows([](const PlanRow& row) {
    SCOPED_TRACE(row.format);
    SCOPED_TRACE(row.settings);
    if (!HasFatalFailure()) ExpectSame(row.plan);
  });
}

TEST_F(SharedAgreement, Rotations) {
  const auto each = [](const PlanRow& row) {
    SCOPED_TRACE(row.settings);
    if (!HasFatalFailure()) ExpectSame(row.plan);
  };
  ForRhtAmaxRows(each);
  ForApplyRhtRows(each);
}

}  // namespace
}  // namespace quantd
