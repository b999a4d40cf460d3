// Quantizes a tensor through every transport that the server offers, and prints
// the transport and the time of each call.
//
//     every_way local
//     every_way 127.0.0.1:50151
//     every_way unix:/run/quantd/calls /run/quantd/memory
//
// The second argument is the server's --memory-socket.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "quantd/local.h"

namespace {

constexpr int64_t kRows = 4096;
constexpr int64_t kColumns = 2048;
constexpr size_t kBytes = kRows * kColumns * sizeof(float);

using Bytes = absl::Span<const std::byte>;

// Prints the best time of five calls. Returns false if a call fails.
bool Measure(quantd::Client& client, const char* memory, Bytes input,
             const quantd::CallOptions& call = {}) {
  quantd::QuantizeOptions options;
  options.format = quantd::Format::kNvfp4;
  double best = 1e9;
  std::string_view way;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto result = client.Quantize(
        {quantd::DType::kF32, {kRows, kColumns}}, input, options, call);
    const std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - start;
    if (!result.ok()) {
      std::cerr << memory << ": " << result.status().message() << "\n";
      return false;
    }
    best = std::min(best, took.count());
    way = Name(result->transport());
  }
  std::cout << memory << ": by " << way << ", " << best << " ms\n";
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: every_way SERVER [MEMORY_SOCKET]\n";
    return 2;
  }
  quantd::ClientOptions options;
  if (argc == 3) options.memory_socket = argv[2];
  const auto client = quantd::CreateClient(argv[1], options);
  if (!client.ok()) {
    std::cerr << client.status().message() << "\n";
    return 1;
  }

  // Ordinary memory. The transport is tcp, unix or local.
  std::vector<float> values(kBytes / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(0.37f * static_cast<float>(i));
  }
  const Bytes bytes(reinterpret_cast<const std::byte*>(values.data()), kBytes);
  bool good = Measure(**client, "a vector", bytes);

  // Memory shared with the server, or page-locked for a local GPU. The result
  // lies in memory of the same type.
  const auto host = (*client)->AllocateHost(kBytes);
  if (host.ok()) {
    std::copy(bytes.begin(), bytes.end(), host->bytes().begin());
    good &= Measure(**client, "memory of AllocateHost", host->bytes());
  } else {
    std::cerr << host.status().message() << "\n";
    good = false;
  }

  // GPU memory, if the server uses that GPU. The transport is cuda or local.
  // The input values do not matter here.
  const auto device = (*client)->AllocateDevice(0, kBytes);
  if (device.ok()) {
    good &= Measure(**client, "memory of AllocateDevice", device->bytes());
  } else {
    std::cout << "memory of AllocateDevice: " << device.status().message()
              << "\n";
  }
  return good ? 0 : 1;
}
