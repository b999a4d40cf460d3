// Quantizes a tensor by every transport to a device, and prints the transport
// and time of each call.
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

// Prints the best of several calls; returns false if they fail.
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

  // This program's own memory: tcp, unix or local.
  std::vector<float> values(kBytes / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(0.37f * static_cast<float>(i));
  }
  const Bytes bytes(reinterpret_cast<const std::byte*>(values.data()), kBytes);
  bool good = Measure(**client, "a vector", bytes);

  // Memory for calls, shared with the server or page-locked for a GPU. The
  // result is in such memory, too.
  const auto host = (*client)->AllocateHost(kBytes);
  if (host.ok()) {
    std::copy(bytes.begin(), bytes.end(), host->bytes().begin());
    good &= Measure(**client, "memory of AllocateHost", host->bytes());
  } else {
    std::cerr << host.status().message() << "\n";
    good = false;
  }

  // A GPU's memory, if the server works with that GPU: cuda or local. Its
  // content does not matter here.
  const auto device = (*client)->AllocateDevice(0, kBytes);
  if (device.ok()) {
    good &= Measure(**client, "memory of AllocateDevice", device->bytes());
  } else {
    std::cout << "memory of AllocateDevice: " << device.status().message()
              << "\n";
  }
  return good ? 0 : 1;
}
