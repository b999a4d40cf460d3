// Measures one large call in chunks, by one message, and in bands over several
// connections. Raw gRPC echoes of the same bytes, by one message and in pieces
// of the bands' size over as many connections, are the ceiling.
//
// Calls use the SDK with a given amax and results in the caller's memory. Every
// round runs all contenders, so that a slow minute of the machine affects all.
// The results are medians relative to the best echo.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "proto/net/allocator.h"
#include "quantd/client.h"
#include "tests/bench/echo/rpc_echo.h"
#include "tests/bench/quantile.h"
#include "tests/bench/rpc_process.h"

namespace quantd::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kColumns = 1024;
constexpr size_t kBand = 4 << 20;

// The common input, and memory for results.
class Memory {
 public:
  explicit Memory(size_t bytes)
      : input_(bytes), output_(2 * EchoBytes(bytes) + (size_t{1} << 20)) {
    auto* const values = reinterpret_cast<uint16_t*>(input_.data());
    for (size_t i = 0; i < bytes / 2; ++i) {
      values[i] = static_cast<uint16_t>(0x3e00 + i * 2654435761u % 0x180);
    }
  }
  absl::Span<const std::byte> input() const { return input_; }
  absl::Span<std::byte> output() { return absl::MakeSpan(output_); }

 private:
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
};

// Makes one unary call of raw bytes. Returns false on failure.
bool CallEcho(grpc::GenericStub& stub, absl::Span<const std::byte> input,
              std::byte* to) {
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  grpc::Slice slice(const_cast<std::byte*>(input.data()), input.size(),
                    grpc::Slice::STATIC_SLICE);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer reply;
  grpc::Status status;
  const auto call = stub.PrepareUnaryCall(
      &context, "/quantd.v1.Quantd/Quantize", request, &queue);
  call->StartCall();
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  // Copies the reply to the caller's memory, like the SDK.
  std::vector<grpc::Slice> slices;
  if (!status.ok() || !reply.Dump(&slices).ok()) return false;
  for (const grpc::Slice& piece : slices) {
    to = std::copy_n(reinterpret_cast<const std::byte*>(piece.begin()),
                     piece.size(), to);
  }
  return true;
}

// Sends the input in pieces, from a thread for each connection.
bool CallEchoes(absl::Span<const std::unique_ptr<grpc::GenericStub>> stubs,
                size_t piece, Memory& memory) {
  const auto input = memory.input();
  std::atomic<bool> good = true;
  const auto work = [&](size_t i) {
    for (size_t at = i * piece; at < input.size(); at += stubs.size() * piece) {
      if (!CallEcho(*stubs[i], input.subspan(at, piece),
                    memory.output().data() + EchoBytes(at))) {
        good = false;
      }
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < stubs.size(); ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  return good;
}

bool CallQuantd(Client& client, Memory& memory, bool streamed, bool banded) {
  const TensorDesc desc = {
      DType::kBF16,
      {static_cast<int64_t>(memory.input().size()) / (2 * kColumns), kColumns}};
  QuantizeOptions options;
  options.format = Format::kNvfp4;
  options.rowwise_amax = {4.0f};
  const auto plan = MakeQuantizePlan(desc, options);
  CallOptions call;
  call.deadline = std::chrono::minutes(2);
  for (const TensorSpec& part : plan->outputs()) {
    call.into.push_back(
        {part.kind, memory.output().subspan(part.offset, part.size)});
  }
  const auto result = client.Quantize(desc, memory.input(), options, call);
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
    return false;
  }
  // (Bands may be streams, too.)
  if ((!banded && result->streamed() != streamed) ||
      (result->bands() > 1) != banded) {
    std::fprintf(stderr, "the call used another route: %s, %zu bands\n",
                 result->streamed() ? "streamed" : "one message",
                 static_cast<size_t>(result->bands()));
    return false;
  }
  return true;
}

struct Contender {
  std::string name;
  std::function<bool(Memory&)> call;
  std::vector<double> gbps;  // of input, one each round
};

std::string Over(int channels) {
  return "4 MiB over " + std::to_string(channels);
}

int Run(int argc, char** argv) {
  CLI::App app(
      "Measures one large call in chunks, by one message and in bands.",
      "stream_bench");
  int rounds = 5;
  std::vector<size_t> sizes = {64, 512};
  std::vector<int> connections = {1, 2, 4};
  std::vector<std::string> devices = {"memcpy", "cpu"};
  std::string json_path;
  std::string port_file;
  bool echo_role = false;
  app.add_option("--rounds", rounds, "Interleaved rounds")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--mib", sizes, "Sizes of the input")->capture_default_str();
  app.add_option("--connections", connections, "Connections of calls in bands")
      ->capture_default_str();
  app.add_option("--device", devices)->capture_default_str();
  app.add_option("--json", json_path, "File for the result");
  app.add_flag("--echo", echo_role, "Run as the echo server")->group("");
  app.add_option("--port-file", port_file)->group("");
  CLI11_PARSE(app, argc, argv);
  if (echo_role) {
    const unsigned cores = std::thread::hardware_concurrency();
    return RunEcho(port_file, static_cast<int>(std::max(1u, cores / 4)));
  }

  const auto server = [](const std::string& device) {
    return std::make_unique<ServerProcess>(std::vector<std::string>{
        FindQuantd(), "--listen", "127.0.0.1:0", "--device", device,
        "--memory-budget", "3GiB", "--max-request-bytes", "1GiB"});
  };
  ServerProcess echo({SelfPath(), "--echo"});
  std::vector<std::unique_ptr<ServerProcess>> servers;
  for (const std::string& device : devices) servers.push_back(server(device));
  const bool all =
      std::all_of(servers.begin(), servers.end(),
                  [](const auto& process) { return process->running(); });
  if (!echo.running() || !all) {
    std::fprintf(stderr, "a server did not start\n");
    return 1;
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs;
  const int most = *std::max_element(connections.begin(), connections.end());
  for (int i = 0; i < std::max(1, most); ++i) {
    stubs.push_back(
        std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(
            echo.address(), grpc::InsecureChannelCredentials(), arguments)));
  }
  std::vector<Contender> contenders = {
      {"echo",
       [&](Memory& memory) {
         return CallEcho(*stubs[0], memory.input(), memory.output().data());
       },
       {}}};
  for (const int channels : connections) {
    contenders.push_back({"echo of " + Over(channels),
                          [&stubs, channels](Memory& memory) {
                            return CallEchoes(
                                absl::MakeSpan(stubs).first(channels), kBand,
                                memory);
                          },
                          {}});
  }
  const size_t echoes = contenders.size();
  std::vector<std::unique_ptr<Client>> clients;
  const auto add = [&](const ServerProcess& process, const std::string& name,
                       const ClientOptions& options) {
    auto client = Client::Create(process.address(), options);
    if (!client.ok()) return false;
    clients.push_back(*std::move(client));
    const bool streamed = options.stream_from == 0;
    const bool banded = options.band_bytes > 0;
    contenders.push_back(
        {name,
         [one = clients.back().get(), streamed, banded](Memory& memory) {
           return CallQuantd(*one, memory, streamed, banded);
         },
         {}});
    return true;
  };
  for (size_t i = 0; i < devices.size(); ++i) {
    ClientOptions options;
    bool made = add(*servers[i], devices[i] + " unary", options);
    options.stream_from = 0;
    made &= add(*servers[i], devices[i] + " streamed", options);
    for (const int channels : connections) {
      options = {};
      options.band_bytes = kBand;
      options.channels = channels;
      made &=
          add(*servers[i], devices[i] + " bands of " + Over(channels), options);
    }
    if (!made) return 1;
  }

  nlohmann::json rows = nlohmann::json::array();
  for (const size_t mib : sizes) {
    Memory memory(mib << 20);
    const int calls = static_cast<int>(std::max<size_t>(1, 512 / mib));
    for (Contender& c : contenders) c.gbps.clear();
    for (int round = -1; round < rounds; ++round) {  // the first warms up
      for (size_t i = 0; i < contenders.size(); ++i) {
        // Each contender is first in a round equally often.
        Contender& c = contenders[(i + std::max(round, 0)) % contenders.size()];
        const auto start = Clock::now();
        for (int k = 0; k < calls; ++k) {
          if (!c.call(memory)) return 1;
        }
        const std::chrono::duration<double> took = Clock::now() - start;
        if (round < 0) continue;
        c.gbps.push_back(static_cast<double>(mib << 20) * calls / 1e9 /
                         took.count());
      }
    }
    double best = 0;
    for (size_t i = 0; i < echoes; ++i) {
      best = std::max(best, Median(contenders[i].gbps));
    }
    for (const Contender& c : contenders) {
      std::printf(
          "%4zu MiB  %-30s %6.2f GB/s of input, %.2f of the best echo\n", mib,
          c.name.c_str(), Median(c.gbps), Median(c.gbps) / best);
      rows.push_back({{"mib", mib},
                      {"contender", c.name},
                      {"gb_per_s", Median(c.gbps)},
                      {"gb_per_s_rounds", c.gbps},
                      {"ratio_to_echo", Median(c.gbps) / best}});
    }
  }
  if (json_path.empty()) return 0;
  std::ofstream file(json_path);
  file << nlohmann::json{{"benchmark", "stream"},
                         {"rounds", rounds},
                         {"rows", rows}}
              .dump(2)
       << '\n';
  return file.flush() ? 0 : 1;
}

}  // namespace
}  // namespace quantd::bench

int main(int argc, char** argv) {
  quantd::TuneAllocator();
  return quantd::bench::Run(argc, argv);
}
