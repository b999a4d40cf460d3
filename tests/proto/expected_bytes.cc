// Computes the results that python_stub_test.py expects from a server, with the
// CPU backend. `expected_bytes INPUT ROWS COLS DIRECTORY` reads ROWS x COLS
// bf16 elements and writes one file for each call.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "kernels/device/devices.h"

namespace quantd {
namespace {

template <typename T>
T OrExit(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(value);
}

// Runs `plan` and returns its outputs. `feed(spec)` returns the bytes of each
// input.
template <typename F>
std::string Compute(Backend& backend, absl::StatusOr<Plan> made, F feed) {
  const auto plan = std::make_shared<const Plan>(OrExit(std::move(made)));
  const std::unique_ptr<Job> job = OrExit(backend.Begin(plan));
  std::memset(job->staging().data(), 0, plan->input_bytes());
  for (const TensorSpec& input : plan->inputs()) {
    const std::string bytes = feed(input);
    if (bytes.size() != input.size) {
      std::fprintf(stderr, "INPUT has the wrong size\n");
      std::exit(1);
    }
    std::memcpy(job->staging().data() + input.offset, bytes.data(),
                bytes.size());
  }
  job->Fed(plan->input_bytes());
  OrExit(job->Run());
  const Block block = job->TakeOutput();
  return std::string(reinterpret_cast<const char*>(block.data()),
                     plan->output_bytes());
}

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  if (!file.flush()) {
    std::fprintf(stderr, "cannot write %s\n", path.c_str());
    std::exit(1);
  }
}

int Main(char** argv) {
  std::ifstream file(argv[1], std::ios::binary);
  const std::string x((std::istreambuf_iterator<char>(file)),
                      std::istreambuf_iterator<char>());
  const std::string out = std::string(argv[4]) + "/";
  const TensorDesc tensor = {DType::kBF16,
                             {std::atoll(argv[2]), std::atoll(argv[3])}};
  const std::unique_ptr<Backend> backend = OrExit(OpenBackend("cpu"));
  const auto input = [&](const TensorSpec&) { return x; };

  QuantizeOptions quantize;
  quantize.format = Format::kNvfp4;
  quantize.usage = Usage::kBoth;
  quantize.rht.columnwise = true;
  const auto plan = MakeQuantizePlan(tensor, quantize);
  const std::string codes = Compute(*backend, plan, input);
  Write(out + "quantize", codes);

  for (const Usage usage : {Usage::kRowwise, Usage::kColumnwise}) {
    DequantizeOptions dequantize;
    dequantize.format = Format::kNvfp4;
    dequantize.usage = usage;
    dequantize.output = DType::kF32;
    dequantize.inverse_rht = usage == Usage::kColumnwise;
    const auto part = [&](const TensorSpec& spec) {
      const TensorSpec* from = plan->output(spec.kind);
      return codes.substr(from->offset, from->size);
    };
    Write(out + "dequantize_" + std::string(Name(usage)),
          Compute(*backend, MakeDequantizePlan(tensor, dequantize), part));
  }

  RhtAmaxOptions amax;
  amax.rowwise = amax.rowwise_rht = amax.columnwise_rht = true;
  Write(out + "rht_amax",
        Compute(*backend, MakeRhtAmaxPlan(tensor, amax), input));

  ApplyRhtOptions apply;
  apply.output = DType::kF32;
  apply.sign_mask = SignMask{{0x1234, 0}};
  Write(out + "apply_rht",
        Compute(*backend, MakeApplyRhtPlan(tensor, apply), input));
  return 0;
}

}  // namespace
}  // namespace quantd

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: expected_bytes INPUT ROWS COLS DIRECTORY\n");
    return 2;
  }
  return quantd::Main(argv);
}
