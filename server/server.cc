#include "server/server.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kernels/device/budget.h"
#include "kernels/device/devices.h"
#include "kernels/device/health/self_test.h"
#include "server/calls/incoming_call.h"
#include "server/observe/log.h"
#include "server/observe/metrics_page.h"

namespace quantd {
namespace {

// Calls of a method that may arrive before the queue's thread looks.
constexpr int kArmedCalls = 4;
// Limit of a call's headers.
constexpr int kMaxMetadataBytes = 8 << 10;
// Fewer and larger frames cost less; gRPC's default of 16 KiB costs a tenth
// more.
constexpr int kMaxFrame = 1 << 20;

// The requested number of threads, or one for each `cores` cores.
int Threads(int asked, int cores) {
  if (asked > 0) return asked;
  return std::max<int>(1, std::thread::hardware_concurrency() / cores);
}

absl::Status AboutFlag(std::string_view flag, const absl::Status& s) {
  return absl::Status(s.code(),
                      fmt::format("{}: {}", flag, std::string(s.message())));
}

bool IsCuda(std::string_view name) { return name.starts_with("cuda"); }

// Returns a function that tells whether a host is a trusted proxy.
std::function<bool(std::string_view)> TrustedHosts(
    const ServerOptions& options) {
  return [proxies = options.trusted_proxies](std::string_view host) {
    return std::any_of(
        proxies.begin(), proxies.end(), [&](const std::string& proxy) {
          return host == "ipv4:" + proxy || host == "ipv6:[" + proxy + "]";
        });
  };
}

Gate::Limits GateLimits(const ServerOptions& options,
                        const MemoryShares& shares,
                        const std::vector<std::unique_ptr<Backend>>& backends) {
  Gate::Limits limits;
  limits.receiving = shares.receive;
  limits.heads = shares.heads;
  limits.max_waiting = options.max_waiting;
  limits.max_wait = options.max_wait;
  for (const auto& backend : backends) {
    limits.devices.push_back(shares.per_device);
    limits.streams.push_back(backend->info().feeding);
  }
  return limits;
}

size_t BudgetOf(const ServerOptions& options) {
  return options.memory_budget != 0 ? options.memory_budget : DefaultBudget();
}

BackendOptions OptionsOfBackends(const ServerOptions& options,
                                 const MemoryShares& shares) {
  BackendOptions each;
  // Self-tests take memory that the gate does not grant.
  each.memory_limit = shares.per_device + kSelfTestBytes;
  each.slots = options.slots;
  each.threads = options.cpu_threads;
  each.isa = options.cpu_isa;
  return each;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const ServerOptions& options) {
  if (absl::Status s = Validate(options); !s.ok()) return s;
  std::vector<std::string> names = options.devices;
  if (names.empty()) {
    names = DefaultBackends();
    const std::string why = CudaUnavailableReason();
    if (!why.empty()) Log(LogLevel::kInfo, "no_cuda", {{"reason", why}});
  }
  const int cuda = std::count_if(names.begin(), names.end(), IsCuda);
  const BackendOptions backend_options = OptionsOfBackends(
      options, DivideBudget(BudgetOf(options), names.size(), cuda));
  std::vector<std::unique_ptr<Backend>> backends;
  for (const std::string& name : names) {
    auto backend = OpenBackend(name, backend_options);
    if (!backend.ok()) return backend.status();
    backends.push_back(*std::move(backend));
  }
  return StartWith(options, std::move(backends));
}

absl::StatusOr<std::unique_ptr<Server>> Server::StartWith(
    const ServerOptions& options,
    std::vector<std::unique_ptr<Backend>> backends) {
  if (absl::Status s = Validate(options); !s.ok()) return s;
  if (backends.empty()) return absl::NotFoundError("no device");
  auto credentials = ServerCredentials::Load(options);
  if (!credentials.ok()) return credentials.status();
  const int cuda = std::count_if(
      backends.begin(), backends.end(),
      [](const auto& backend) { return IsCuda(backend->info().kind); });
  MemoryShares shares = DivideBudget(BudgetOf(options), backends.size(), cuda);
  // These pages are charged to clients, but are resident here, too.
  if (!options.memory_socket.empty()) {
    shares.bound += options.shared_memory_limit;
  }
  int fallback = -1;
  if (options.fallback) {
    // Outside the budget: the other devices need their shares when they work
    // again.
    BackendOptions cpu = OptionsOfBackends(options, shares);
    cpu.name = "cpu:fallback";
    auto backend = OpenBackend("cpu", cpu);
    if (!backend.ok()) return backend.status();
    fallback = static_cast<int>(backends.size());
    backends.push_back(*std::move(backend));
    shares.bound += shares.per_device;
  }
  shares.bound += backends.size() * kSelfTestBytes;
  auto server = std::unique_ptr<Server>(new Server(
      options, std::move(backends), shares, fallback, *std::move(credentials)));
  server->env_.monitor->Start();
  server->env_.registry.OnWatch([env = &server->env_](absl::Time now) {
    env->monitor->Look(now);
    env->queue_threads.Look();
  });
  if (absl::Status s = server->ListenForMemory(); !s.ok()) return s;
  if (absl::Status s = server->ListenForMetrics(); !s.ok()) return s;
  if (absl::Status s = server->Listen(); !s.ok()) return s;
  return server;
}

Server::Server(const ServerOptions& options,
               std::vector<std::unique_ptr<Backend>> backends,
               MemoryShares shares, int fallback,
               std::unique_ptr<ServerCredentials> credentials)
    : env_(options, shares, GateLimits(options, shares, backends),
           Threads(0, 8), std::move(backends), std::move(credentials)),
      gate_thread_(env_.gate, options.now) {
  v1::Limits limits;
  limits.set_memory_budget_bytes(shares.budget);
  limits.set_max_rank(kMaxRank);
  limits.set_amax_estimation_scale(options.estimate);
  limits.set_reduce_amax(true);
  for (const wire::MethodSpec& row : wire::kTensorMethods) {
    env_.request_limit[wire::Index(row.method)] =
        LargestRequest(row.method, shares, options.max_request_bytes);
  }
  limits.set_max_request_bytes(
      env_.request_limit[wire::Index(wire::Method::kQuantize)]);
  env_.facts.defaults.amax_estimation_scale = options.estimate;
  env_.facts.info = [&engine = env_.engine, limits] {
    return ServerInfoOf(engine, limits);
  };
  env_.speaks_for_many = TrustedHosts(options);
  for (size_t i = 0; i < env_.engine.size(); ++i) {
    // A GPU copies host memory that is not page-locked into staging blocks
    // first.
    const BackendInfo& info = env_.engine.backend(i).info();
    env_.works_in_place &= info.borrows && info.kind == "cpu";
  }
  DeviceMonitor::Settings watch;
  watch.self_test_interval = options.self_test_interval;
  watch.most_without = options.most_without;
  watch.on_hopeless = [this] {
    wants_restart_ = true;
    if (env_.options.on_hopeless) env_.options.on_hopeless();
  };
  watch.fallback = fallback;
  watch.now = options.now;
  env_.monitor = std::make_unique<DeviceMonitor>(
      &env_.engine, env_.gate.get(), &env_.health, std::move(watch));
}

absl::Status Server::Listen() {
  auto acceptor =
      Acceptor::Listen(env_.options.listen, {env_.options.max_connections != 0
                                                 ? env_.options.max_connections
                                                 : MostConnections(),
                                             env_.options.max_send});
  if (!acceptor.ok()) {
    return absl::UnavailableError(fmt::format(
        "{}; stop what listens there, or choose another with --listen",
        std::string(acceptor.status().message())));
  }
  env_.acceptor = *std::move(acceptor);
  address_ = env_.acceptor->address();

  grpc::ServerBuilder builder;
  auto connections = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      env_.credentials->ForPort());
  // Larger requests get a typed error from us; far larger ones are not read at
  // all.
  builder.SetMaxReceiveMessageSize(static_cast<int>(
      std::min(2 * *std::max_element(std::begin(env_.request_limit),
                                     std::end(env_.request_limit)) +
                   wire::kMaxRequestHeadBytes,
               wire::kMaxMessageBytes)));
  builder.SetMaxSendMessageSize(-1);
  grpc::ResourceQuota quota("quantd");
  quota.Resize(env_.shares.grpc_quota);
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             env_.options.max_streams);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
  // Clients may send keepalive pings as often as they like.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  // Unread calls hold a connection's window, which gRPC would let grow to many
  // megabytes on a fast one.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES,
                             static_cast<int>(env_.shares.window));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kMaxFrame);
  // Quantized data does not compress, and the filter would be the bottleneck.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.RegisterService(&env_.tensors);
  builder.RegisterAsyncGenericService(&env_.others);
  AddQueues(builder);
  grpc_ = builder.BuildAndStart();
  if (grpc_ == nullptr) {
    // Never started, but queues must be shut down and emptied all the same.
    for (auto* queues : {&queues_, &stream_queues_}) {
      for (auto& queue : *queues) {
        queue->Shutdown();
        env_.queue_threads.Add(queue.get());
      }
    }
    env_.queue_threads.Join();
    return absl::UnavailableError("gRPC cannot start a server");
  }
  ArmCalls();
  env_.acceptor->Start(std::move(connections));
  env_.health.SetServing(true);
  return absl::OkStatus();
}

void Server::AddQueues(grpc::ServerBuilder& builder) {
  const int queues = Threads(env_.options.queues, 16);
  for (int i = 0; i < queues; ++i) {
    queues_.push_back(builder.AddCompletionQueue());
  }
  const int stream_queues = Threads(env_.options.stream_queues, 4);
  for (int i = 0; i < stream_queues; ++i) {
    // No new calls arrive there.
    stream_queues_.push_back(builder.AddCompletionQueue(false));
    streams_.emplace_back();
  }
}

void Server::ArmCalls() {
  for (int i = 0; i < kArmedCalls; ++i) {
    // Other methods share the last queue. With a queue and a thread of their
    // own, every call would cost more: whichever thread reads sockets would
    // have to wake the call's thread for each event.
    auto* const last = queues_.back().get();
    IncomingCall::Arm(&env_, std::nullopt, {last, last});
    for (auto& queue : queues_) {
      for (const wire::MethodSpec& row : wire::kTensorMethods) {
        IncomingCall::Arm(&env_, row.method, {queue.get(), queue.get()});
      }
    }
    for (size_t k = 0; k < stream_queues_.size(); ++k) {
      IncomingCall::Arm(&env_, wire::Method::kStream,
                        {queues_[k % queues_.size()].get(),
                         stream_queues_[k].get(), &streams_[k]});
    }
  }
  for (auto& queue : queues_) env_.queue_threads.Add(queue.get());
  for (size_t k = 0; k < stream_queues_.size(); ++k) {
    env_.queue_threads.Add(stream_queues_[k].get(), &streams_[k]);
  }
}

absl::Status Server::ListenForMemory() {
  if (env_.options.memory_socket.empty()) return absl::OkStatus();
  auto peers = FindMemoryPeers(env_.options.memory_peers);
  if (!peers.ok()) return peers.status();
  DoorLimits limits;
  limits.bytes = env_.options.shared_memory_limit;
  limits.connection_bytes = limits.bytes / 2;
  auto door = MemoryDoor::Open(env_.options.memory_socket, *std::move(peers),
                               limits, &env_.regions);
  if (!door.ok()) return AboutFlag("--memory-socket", door.status());
  env_.door = *std::move(door);
  return absl::OkStatus();
}

absl::Status Server::ListenForMetrics() {
  if (env_.options.metrics_address.empty()) return absl::OkStatus();
  auto http = HttpListener::Start(
      env_.options.metrics_address,
      [this](std::string_view path) { return AnswerHttp(path); });
  if (!http.ok()) return AboutFlag("--metrics-address", http.status());
  http_ = *std::move(http);
  return absl::OkStatus();
}

HttpReply Server::AnswerHttp(std::string_view path) const {
  if (path == "/metrics") {
    return {"200 OK", MetricsPage(env_),
            "text/plain; version=0.0.4; charset=utf-8"};
  }
  if (path == "/healthz") return {"200 OK", "alive\n"};
  if (path == "/readyz") {
    return env_.health.serving()
               ? HttpReply{"200 OK", "serving\n"}
               : HttpReply{"503 Service Unavailable", "not serving\n"};
  }
  return {"404 Not Found", "here are /metrics, /healthz and /readyz\n"};
}

void Server::LogDevices() const {
  for (size_t i = 0; i < env_.engine.size(); ++i) {
    const BackendInfo& info = env_.engine.backend(i).info();
    Log(LogLevel::kInfo, "device",
        {{"name", info.name},
         {"description", info.description},
         {"slots", info.slots}});
  }
}

}  // namespace quantd
