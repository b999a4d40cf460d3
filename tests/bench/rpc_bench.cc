// Compares unary RPCs of quantd with a raw gRPC echo of the same bytes.
//
// Three servers run in separate processes: the echo, quantd with the memcpy
// device (everything except the arithmetic), and quantd on a real device. Every
// round runs all of them, so that a slow minute of the machine affects all. The
// results are ratios of medians.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "proto/net/allocator.h"
#include "quantd.pb.h"
#include "tests/bench/echo/rpc_echo.h"
#include "tests/bench/quantile.h"
#include "tests/bench/rpc_process.h"

namespace quantd::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

struct Size {
  const char* name;
  size_t bytes;  // of bf16 input
  int calls;     // in one round
};
constexpr Size kSizes[] = {{"4 KiB", 4 << 10, 1500},
                           {"1 MiB", 1 << 20, 150},
                           {"4 MiB", 4 << 20, 60},
                           {"64 MiB", 64 << 20, 8}};
constexpr int kColumns = 1024;

// Makes a request whose payload is one slice, like a client that does not copy.
std::vector<grpc::Slice> MakeRequest(size_t bytes) {
  v1::QuantizeRequest head;
  head.mutable_tensor()->set_dtype(v1::DTYPE_BF16);
  head.mutable_tensor()->add_shape(bytes / 2 / kColumns);
  head.mutable_tensor()->add_shape(kColumns);
  head.mutable_options()->set_format(v1::FORMAT_NVFP4);
  head.mutable_options()->mutable_rht()->set_rowwise(true);
  head.mutable_options()->mutable_given_amax()->set_rowwise(4);
  std::string text = head.SerializeAsString();
  const uint32_t tag = 101 << 3 | 2;
  for (const uint64_t value : {uint64_t{tag}, uint64_t{bytes}}) {
    uint64_t v = value;
    for (; v >= 128; v >>= 7) text += static_cast<char>(v | 128);
    text += static_cast<char>(v);
  }
  grpc::Slice payload(bytes);
  auto* p = reinterpret_cast<uint16_t*>(const_cast<uint8_t*>(payload.begin()));
  for (size_t i = 0; i < bytes / 2; ++i) {
    p[i] = static_cast<uint16_t>(0x3e00 + i * 2654435761u % 0x180) |
           static_cast<uint16_t>((i * 40503u >> 7 & 1) << 15);
  }
  return {grpc::Slice(text), payload};
}

class Client {
 public:
  explicit Client(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(
        address, grpc::InsecureChannelCredentials(), arguments));
  }
  ~Client() {
    queue_.Shutdown();
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  // Makes `calls` calls, one after the other. Returns false if one failed.
  bool Run(const grpc::ByteBuffer& request, int calls) {
    for (int i = 0; i < calls; ++i) {
      grpc::ClientContext context;
      context.AddMetadata("quantd-request-bytes",
                          std::to_string(request.Length()));
      grpc::ByteBuffer reply;
      grpc::Status status;
      const auto reader = stub_->PrepareUnaryCall(
          &context, "/quantd.v1.Quantd/Quantize", request, &queue_);
      reader->StartCall();
      reader->Finish(&reply, &status, nullptr);
      void* tag = nullptr;
      bool ok = false;
      queue_.Next(&tag, &ok);
      if (!status.ok()) {
        std::fprintf(stderr, "call failed: %s\n",
                     status.error_message().c_str());
        return false;
      }
    }
    return true;
  }

 private:
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::CompletionQueue queue_;
};

struct Contender {
  std::string name;
  std::unique_ptr<ServerProcess> server;
  std::unique_ptr<Client> client;
  // GB/s of request and reply bytes, for each size and round.
  std::vector<double> gbps[std::size(kSizes)];
};

bool Measure(Contender& contender, size_t size, bool keep) {
  const std::vector<grpc::Slice> slices = MakeRequest(kSizes[size].bytes);
  const grpc::ByteBuffer request(slices.data(), slices.size());
  const int calls =
      keep ? kSizes[size].calls : std::max(4, kSizes[size].calls / 10);
  const auto start = Clock::now();
  if (!contender.client->Run(request, calls)) {
    std::fprintf(stderr, "%s failed at %s\n%s\n", contender.name.c_str(),
                 kSizes[size].name, contender.server->Log().c_str());
    return false;
  }
  const double seconds =
      std::chrono::duration<double>(Clock::now() - start).count();
  if (!keep) return true;
  const size_t bytes = kSizes[size].bytes + EchoBytes(kSizes[size].bytes);
  contender.gbps[size].push_back(static_cast<double>(bytes) * calls / seconds /
                                 1e9);
  return true;
}

void Report(const std::vector<Contender>& contenders, Json* json) {
  std::printf("%-16s %-7s %8s %8s\n", "server", "size", "GB/s", "of echo");
  for (size_t s = 0; s < std::size(kSizes); ++s) {
    const double echo = Median(contenders[0].gbps[s]);
    for (const Contender& c : contenders) {
      const double median = Median(c.gbps[s]);
      std::printf("%-16s %-7s %8.3f %8.2f\n", c.name.c_str(), kSizes[s].name,
                  median, median / echo);
      json->push_back({{"server", c.name},
                       {"size_bytes", kSizes[s].bytes},
                       {"gb_per_s", median},
                       {"gb_per_s_rounds", c.gbps[s]},
                       {"ratio_to_echo", median / echo}});
    }
  }
}

int Run(int argc, char** argv) {
  CLI::App app("Compares unary RPCs of quantd with a raw gRPC echo.",
               "rpc_bench");
  int rounds = 7;
  std::string quantd = FindQuantd();
  std::string device = "cpu";
  std::string json_path;
  std::string port_file;
  bool echo_role = false;
  app.add_option("--rounds", rounds, "Interleaved rounds")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--quantd", quantd, "The server binary");
  app.add_option("--device", device, "The real device to measure")
      ->capture_default_str();
  app.add_option("--json", json_path, "File for the result");
  app.add_flag("--echo", echo_role, "Run as the echo server")->group("");
  app.add_option("--port-file", port_file)->group("");
  CLI11_PARSE(app, argc, argv);
  if (echo_role) return RunEcho(port_file);
  if (quantd.empty()) {
    std::fprintf(stderr, "quantd not found: pass --quantd PATH\n");
    return 2;
  }

  const auto server = [&](const std::string& name) {
    return std::vector<std::string>{quantd,     "--listen", "127.0.0.1:0",
                                    "--device", name,       "--drain-delay-ms",
                                    "0"};
  };
  std::vector<Contender> contenders(3);
  const std::vector<std::string> commands[] = {
      {SelfPath(), "--echo"}, server("memcpy"), server(device)};
  const std::string names[] = {"echo+memcpy", "quantd memcpy",
                               "quantd " + device};
  for (size_t i = 0; i < 3; ++i) {
    contenders[i].name = names[i];
    contenders[i].server = std::make_unique<ServerProcess>(commands[i]);
    if (!contenders[i].server->running()) {
      std::fprintf(stderr, "%s did not start\n%s\n", names[i].c_str(),
                   contenders[i].server->Log().c_str());
      return 1;
    }
    contenders[i].client =
        std::make_unique<Client>(contenders[i].server->address());
  }

  for (int round = -1; round < rounds; ++round) {  // the first warms up
    for (size_t s = 0; s < std::size(kSizes); ++s) {
      // Each contender is first in a round equally often.
      for (size_t i = 0; i < contenders.size(); ++i) {
        Contender& c = contenders[(i + std::max(round, 0)) % contenders.size()];
        if (!Measure(c, s, round >= 0)) return 1;
      }
    }
  }

  Json result = {{"benchmark", "rpc"},
                 {"rounds", rounds},
                 {"cores", std::thread::hardware_concurrency()},
                 {"device", device},
                 {"rows", Json::array()}};
  Report(contenders, &result["rows"]);
  if (!json_path.empty()) {
    std::ofstream file(json_path);
    file << result.dump(2) << '\n';
    if (!file.flush()) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace quantd::bench

int main(int argc, char** argv) {
  quantd::TuneAllocator();
  return quantd::bench::Run(argc, argv);
}
