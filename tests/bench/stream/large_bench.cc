// Quantizes one tensor in bands. It is larger than any message and than the
// server's budget. The result, with a computed amax, must equal that of
// separate calls for amax and codes, and in samples that of the oracle. With
// several devices there is a server for each, and the call uses all of them.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "proto/net/allocator.h"
#include "quantd/client.h"
#include "tests/bench/rpc_process.h"
#include "tests/oracle/oracle.h"

namespace quantd::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Bytes = absl::Span<const std::byte>;

constexpr int64_t kColumns = 1024;
constexpr int64_t kSampleRows = 128;
constexpr uint64_t kRowBytes = kColumns * 2;

// Fills the input without repetition. One value in the last quarter is far
// larger than all others, so that it determines the amax.
void Fill(absl::Span<std::byte> input, int64_t* row) {
  auto* const values = reinterpret_cast<uint16_t*>(input.data());
  const size_t count = input.size() / 2;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t x = (i + 1) * 0x9e3779b97f4a7c15;
    values[i] =
        static_cast<uint16_t>((x >> 63 << 15) | (0x3d00 + (x >> 32) % 0x380));
  }
  *row = static_cast<int64_t>(count / kColumns) * 7 / 8;
  values[*row * kColumns + 77] = 0x461c;  // 9984
}

// Compares a sample of rows with the oracle under the result's amax. Returns
// what differs, or "".
std::string HeldAgainstOracle(Bytes input, const Result& result, int64_t row) {
  oracle::Bytes rows(kSampleRows * kRowBytes);
  std::memcpy(rows.data(), input.data() + row * kRowBytes, rows.size());
  oracle::QuantizeSpec spec;
  spec.element = oracle::Element::kBF16;
  spec.rows = kSampleRows;
  spec.cols = kColumns;
  spec.rotate_rows = true;
  spec.mask = oracle::Repeat(0xd7e8);  // the default mask of WIRE.md
  spec.row_amax = {*result.amax(TensorKind::kRowwiseAmax)};
  const oracle::Quantized made = oracle::Quantize(spec, rows);
  const auto differs = [&](TensorKind kind, const oracle::Bytes& expected) {
    const size_t at = expected.size() / kSampleRows * row;
    return std::memcmp(result.bytes(kind).data() + at, expected.data(),
                       expected.size()) != 0;
  };
  if (differs(TensorKind::kRowwiseData, made.rowwise.data)) return "codes";
  if (differs(TensorKind::kRowwiseScale, made.rowwise.scale)) return "scales";
  return "";
}

int Run(int argc, char** argv) {
  CLI::App app("Quantizes a tensor larger than a server's budget.",
               "large_bench");
  size_t mib = 96;
  std::string budget = "64MiB";
  std::string json_path;
  std::string commit;
  std::string date;
  int samples = 64;
  std::vector<std::string> devices = {"cpu:0"};
  app.add_option("--mib", mib, "Size of the tensor")
      ->check(CLI::Range(8, 65536))
      ->capture_default_str();
  app.add_option("--budget", budget, "The server's --memory-budget")
      ->capture_default_str();
  app.add_option("--samples", samples,
                 "Number of samples of 128 rows that the oracle checks")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--device", devices, "Devices, with a server for each")
      ->capture_default_str();
  app.add_option("--commit", commit, "Recorded in the file");
  app.add_option("--date", date, "Recorded in the file");
  app.add_option("--json", json_path, "File for the result");
  CLI11_PARSE(app, argc, argv);

  std::deque<ServerProcess> servers;
  std::string addresses;
  for (const std::string& device : devices) {
    const ServerProcess& server = servers.emplace_back(std::vector<std::string>{
        FindQuantd(), "--listen", "127.0.0.1:0", "--device", device,
        "--memory-budget", budget});
    if (!server.running()) {
      std::fprintf(stderr, "no server for %s\n%s\n", device.c_str(),
                   server.Log().c_str());
      return 1;
    }
    addresses += (addresses.empty() ? "" : ",") + server.address();
  }
  ClientOptions how;
  how.band_bytes = size_t{4} << 20;
  how.channels = 4;
  how.deadline = std::chrono::minutes(20);
  const auto client = Client::Create(addresses, how);
  // The two separate calls are cut into other bands.
  how.band_bytes = size_t{3} << 20;
  how.channels = 2;
  const auto other = Client::Create(addresses, how);
  if (!client.ok() || !other.ok()) {
    std::fprintf(stderr, "no client for %s\n", addresses.c_str());
    return 1;
  }
  std::vector<std::byte> input(mib << 20);
  int64_t outlier = 0;
  Fill(absl::MakeSpan(input), &outlier);
  const int64_t rows = static_cast<int64_t>(input.size() / kRowBytes);
  const TensorDesc tensor = {DType::kBF16, {rows, kColumns}};
  QuantizeOptions options;
  options.format = Format::kNvfp4;
  options.usage = Usage::kRowwise;
  options.rht.rowwise = true;

  const auto start = Clock::now();
  const auto one = (*client)->Quantize(tensor, input, options);
  const double seconds =
      std::chrono::duration<double>(Clock::now() - start).count();
  if (!one.ok()) {
    std::fprintf(stderr, "%s\n", one.status().ToString().c_str());
    return 1;
  }
  std::vector<uint64_t> peaks;
  for (const ServerProcess& server : servers) {
    peaks.push_back(server.Status("VmHWM"));
  }
  RhtAmaxOptions ask;
  ask.rowwise_rht = true;
  const auto amax = (*other)->RhtAmax(tensor, input, ask);
  if (amax.ok()) {
    options.rowwise_amax = {*amax->amax(TensorKind::kRowwiseRhtAmax)};
  }
  const auto two = amax.ok() ? (*other)->Quantize(tensor, input, options)
                             : absl::StatusOr<Result>(amax.status());
  if (!two.ok()) {
    std::fprintf(stderr, "%s\n", two.status().ToString().c_str());
    return 1;
  }
  std::string wrong;
  uint64_t compared = 0;
  for (const TensorSpec& part : two->parts()) {
    const auto a = one->bytes(part.kind);
    const auto b = two->bytes(part.kind);
    compared += b.size();
    if (a.size() != b.size() ||
        std::memcmp(a.data(), b.data(), b.size()) != 0) {
      wrong += std::string(Name(part.kind)) + " differs from the two calls; ";
    }
  }
  std::mt19937_64 random(6);
  std::vector<int64_t> sampled = {0, rows - kSampleRows,
                                  outlier / kSampleRows * kSampleRows};
  while (static_cast<int>(sampled.size()) < samples) {
    sampled.push_back(static_cast<int64_t>(random() % (rows / kSampleRows)) *
                      kSampleRows);
  }
  for (const int64_t row : sampled) {
    const std::string what = HeldAgainstOracle(input, *one, row);
    if (!what.empty()) {
      wrong += what + " differs from the oracle at row " + std::to_string(row) +
               "; ";
    }
  }
  const uint64_t elements = sampled.size() * kSampleRows * kColumns;
  std::printf(
      "%zu MiB under a budget of %s: %zu bands, %.1f s, %.2f GB/s; "
      "%.2f GB compared with two calls, %.1f M elements with the oracle: "
      "%s\n",
      mib, budget.c_str(), static_cast<size_t>(one->bands()), seconds,
      static_cast<double>(input.size()) / 1e9 / seconds,
      static_cast<double>(compared) / 1e9, static_cast<double>(elements) / 1e6,
      wrong.empty() ? "no byte differs" : wrong.c_str());
  if (!json_path.empty()) {
    std::ofstream file(json_path);
    file << nlohmann::json{{"benchmark", "a tensor beyond the budget"},
                           {"commit", commit},
                           {"date", date},
                           {"devices", devices},
                           {"mib", mib},
                           {"memory_budget", budget},
                           {"bands", one->bands()},
                           {"seconds", seconds},
                           {"server_peak_bytes", peaks},
                           {"bytes_same_as_two_calls", compared},
                           {"oracle_elements", elements},
                           {"wrong", wrong}}
                .dump(2)
         << '\n';
    if (!file.flush()) return 1;
  }
  return wrong.empty() && one->bands() > 1 ? 0 : 1;
}

}  // namespace
}  // namespace quantd::bench

int main(int argc, char** argv) {
  quantd::TuneAllocator();
  return quantd::bench::Run(argc, argv);
}
