// A large tensor, and clients that cut calls into bands.
#ifndef QUANTD_TESTS_CLIENT_BANDS_BANDED_H_
#define QUANTD_TESTS_CLIENT_BANDS_BANDED_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "quantd/client.h"
#include "tests/bench/rpc_process.h"
#include "tests/client/two_ways.h"
#include "tests/testing/matchers.h"

namespace quantd {

inline constexpr size_t kMiB = size_t{1} << 20;

inline std::unique_ptr<bench::ServerProcess> Start(
    const std::vector<std::string>& flags,
    const std::string& devices = "cpu:0") {
  std::vector<std::string> line = {bench::FindQuantd(), "--listen",
                                   "127.0.0.1:0", "--device", devices};
  line.insert(line.end(), flags.begin(), flags.end());
  auto process = std::make_unique<bench::ServerProcess>(line);
  EXPECT_TRUE(process->running()) << process->Log();
  return process;
}

inline ClientOptions InBands(size_t band_bytes = kMiB) {
  ClientOptions options;
  options.band_bytes = band_bytes;
  return options;
}

// A bf16 tensor of 8 MiB by default, with values of both signs from 2^-7 to
// almost 2. Its last band has few rows.
class Tensor {
 public:
  explicit Tensor(int64_t rows = 4097, int64_t cols = 1024)
      : desc{DType::kBF16, {rows, cols}} {
    std::mt19937 random(5);
    values.resize(static_cast<size_t>(rows * cols));
    for (uint16_t& v : values) {
      v = static_cast<uint16_t>((random() & 0x87FF) | 0x3C00);
    }
  }
  absl::Span<const std::byte> bytes() const {
    return {reinterpret_cast<const std::byte*>(values.data()),
            values.size() * sizeof(uint16_t)};
  }
  TensorDesc desc;
  std::vector<uint16_t> values;
};

inline void ExpectSame(const Result& one, const Result& bands) {
  ExpectSameParts(one, bands);
  EXPECT_EQ(one.bands(), 1);
}

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_BANDS_BANDED_H_
