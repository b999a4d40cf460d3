// Compares the GPU with the CPU backend on more elements than the oracle could
// compute, by random requests with all profiles, options and magnitudes. Each
// request runs on the backend's own memory and on one kind of lent memory.
//
//   QUANTD_GPU_ELEMENTS   the number of elements (1.2e10); a small number
//                         also makes tensors small
//   QUANTD_GPU_FIRST      the number of the first request (0), to reproduce
//                         one that a failure names
//   QUANTD_RESULTS_DIR    a folder for gpu_contract.json, the totals
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "kernels/device/devices.h"
#include "tests/kernels/gpu/random_request.h"
#include "tests/testing/device.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;

double Wanted(const char* variable, double otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atof(text) : otherwise;
}

// Elements of one type and flavor, from which inputs are cut. They come from
// many tensors, because in some flavors a tensor has a single magnitude.
class Pool {
 public:
  Pool(Element e, Flavor flavor, int64_t count) {
    constexpr int64_t kTensor = 1 << 15;
    std::vector<Bytes> tensors(static_cast<size_t>(count / kTensor + 1));
    const size_t threads = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::thread> workers;
    for (size_t first = 0; first < threads; ++first) {
      workers.emplace_back([&, first] {
        for (size_t i = first; i < tensors.size(); i += threads) {
          tensors[i] = MakeTensor(e, kTensor, flavor, i);
        }
      });
    }
    for (auto& worker : workers) worker.join();
    for (const Bytes& tensor : tensors) {
      bytes_.insert(bytes_.end(), tensor.begin(), tensor.end());
    }
  }

  // Returns `size` bytes from byte `first` on. Repeats the elements if there
  // are too few.
  Bytes Cut(int64_t first, size_t size) const {
    Bytes cut(size);
    for (size_t at = static_cast<size_t>(first) % bytes_.size(), done = 0;
         done < size; at = 0) {
      const size_t n = std::min(size - done, bytes_.size() - at);
      std::memcpy(cut.data() + done, bytes_.data() + at, n);
      done += n;
    }
    return cut;
  }

 private:
  Bytes bytes_;
};

Element ElementOfInput(DType dtype) {
  return dtype == DType::kF32   ? Element::kF32
         : dtype == DType::kF16 ? Element::kF16
                                : Element::kBF16;
}

TEST(GpuContractTest, AgreesWithTheCpu) {
  const auto target = GpuTarget();
  if (!target) GTEST_SKIP() << CudaUnavailableReason();
  BackendOptions backend;
  backend.memory_limit = size_t{4} << 30;
  auto gpu = Device::Open(*target, backend);
  auto cpu = Device::Open({"cpu", "auto"}, backend);
  ASSERT_THAT(gpu, IsOk());
  ASSERT_THAT(cpu, IsOk());

  const double wanted = Wanted("QUANTD_GPU_ELEMENTS", 1.2e10);
  const auto pool_size = static_cast<int64_t>(std::min(wanted / 32, 0x1p24));
  std::map<std::pair<Element, Flavor>, Pool> pools;
  const auto cut = [&](Element e, Flavor flavor, uint64_t seed, size_t size) {
    const auto& pool =
        pools.try_emplace({e, flavor}, e, flavor, pool_size).first->second;
    return pool.Cut(static_cast<int64_t>(seed % (1 << 20)) * 4096, size);
  };
  const auto start = std::chrono::steady_clock::now();
  std::map<std::string, double> kinds;
  double elements = 0, bytes = 0, with_statistics = 0;
  int requests = 0, small = 0, rejected = 0, mismatches = 0;
  for (int n = static_cast<int>(Wanted("QUANTD_GPU_FIRST", 0));
       elements < wanted && mismatches < 20; ++n) {
    const RandomRequest r = DrawRequest(n, wanted / 32);
    if (!r.plan.ok()) continue;
    const Plan& plan = *r.plan;
    std::vector<Bytes> inputs;
    for (const TensorSpec& spec : plan.inputs()) {
      // Codes and scales may be any bytes, and an amax any number.
      const bool tensor = plan.inputs().size() == 1;
      inputs.push_back(cut(tensor ? ElementOfInput(spec.dtype) : Element::kF32,
                           tensor              ? r.flavor
                           : inputs.size() < 2 ? Flavor::kRaw
                                               : Flavor::kSpread,
                           r.seed + inputs.size(), spec.size));
    }
    ++requests;
    const auto want = RunPlanOnOwnMemory(cpu->backend(), plan, inputs);
    const auto got = RunPlan(gpu->backend(), plan, inputs);
    bool same = want.status().code() == got.status().code();
    EXPECT_TRUE(same) << r.name << ": " << want.status() << ", but "
                      << got.status();
    if (same && want.ok()) {
      const auto same_bytes =
          BytesEq(r.name, want->payload.bytes(), got->payload.bytes());
      const bool same_report = SameReport(want->report, got->report);
      EXPECT_TRUE(same_bytes);
      EXPECT_TRUE(same_report) << r.name << ": the reports differ";
      same = same_bytes && same_report;
      const double count = static_cast<double>(plan.rows()) * plan.cols();
      elements += count;
      bytes += static_cast<double>(want->payload.size());
      kinds[std::string(Name(r.flavor))] += count;
      kinds["profile " + r.profile] += count;
      if (r.statistics) with_statistics += count;
      small += count < 1e6;
    }
    rejected += !want.ok();
    mismatches += !same;
  }
  const nlohmann::json totals = {
      {"gpu", gpu->backend().info().description},
      {"cpu", cpu->backend().info().description},
      {"elements", elements},
      {"elements_with_statistics", with_statistics},
      {"elements_by_kind", kinds},
      {"output_bytes_compared", bytes},
      {"requests", requests},
      {"requests_below_1e6_elements", small},
      {"requests_rejected_by_both", rejected},
      {"requests_with_mismatch", mismatches},
      {"seconds",
       std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
           .count()},
  };
  std::cout << "[ COMPARED ] " << totals.dump() << "\n";
  if (const char* folder = std::getenv("QUANTD_RESULTS_DIR")) {
    std::ofstream file(fmt::format("{}/gpu_contract.json", folder));
    file << totals.dump(1) << "\n";
    EXPECT_TRUE(file.good()) << "cannot write to " << folder;
  }
}

}  // namespace
}  // namespace quantd
