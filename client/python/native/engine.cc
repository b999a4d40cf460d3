#include "client/python/native/engine.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <list>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <variant>

#include "client/memory/cuda_driver.h"
#include "client/python/native/reply.h"
#include "quantd/local.h"

namespace quantd::python {
namespace {

// The process that first opened an engine, or 0. gRPC's threads only exist in
// that process.
std::atomic<pid_t> owner{0};

// Limit of registered GPU allocations. Each keeps a connection to the server's
// memory socket, which accepts 256 from all processes together.
constexpr size_t kKnown = 32;

// Number of parsed requests that are kept, because programs repeat the same
// request for many tensors. Requests with larger headers than
// kLongestRemembered bytes are not kept.
constexpr size_t kRemembered = 16;
constexpr size_t kLongestRemembered = 4096;

// The fp32 numbers of an input. An aligned input is used in place, even in GPU
// memory. Others are copied.
class Floats {
 public:
  explicit Floats(Bytes bytes) {
    const size_t count = bytes.size() / sizeof(float);
    if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(float) == 0) {
      span_ = {reinterpret_cast<const float*>(bytes.data()), count};
      return;
    }
    copy_.resize(count);
    std::memcpy(copy_.data(), bytes.data(), count * sizeof(float));
    span_ = copy_;
  }
  absl::Span<const float> span() const { return span_; }

 private:
  std::vector<float> copy_;
  absl::Span<const float> span_;
};

}  // namespace

struct Engine::State {
  const pid_t process = getpid();
  std::unique_ptr<Client> client;
  bool local = false;
  bool takes_device = false;
  struct Known {
    DeviceMemory memory;
    uint64_t id;
  };
  std::mutex known_mutex;
  std::list<Known> known;  // registered GPU allocations

  // Recently used requests, the last one first.
  struct Read {
    wire::Method method;
    std::string header;
    std::shared_ptr<const Plan> plan;
  };
  std::mutex read_mutex;
  std::list<Read> read;

  std::shared_ptr<const Plan> Remembered(wire::Method method,
                                         std::string_view header);
  void Remember(wire::Method method, std::string_view header,
                std::shared_ptr<const Plan> plan);

  std::mutex mutex;
  std::condition_variable idle;
  std::unordered_set<const Scope*> calls;
  bool closed = false;
};

std::shared_ptr<const Plan> Engine::State::Remembered(wire::Method method,
                                                      std::string_view header) {
  const std::lock_guard lock(read_mutex);
  for (auto it = read.begin(); it != read.end(); ++it) {
    if (it->method != method || it->header != header) continue;
    read.splice(read.begin(), read, it);
    return it->plan;
  }
  return nullptr;
}

void Engine::State::Remember(wire::Method method, std::string_view header,
                             std::shared_ptr<const Plan> plan) {
  if (header.size() > kLongestRemembered) return;
  const std::lock_guard lock(read_mutex);
  read.push_front({method, std::string(header), std::move(plan)});
  if (read.size() > kRemembered) read.pop_back();
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(
    std::string_view target, const ClientOptions& options) {
  pid_t none = 0;
  owner.compare_exchange_strong(none, getpid());
  auto client = CreateClient(target, options);
  if (!client.ok()) return client.status();
  auto state = std::make_unique<State>();
  state->client = *std::move(client);
  state->local = target == "local" || target.starts_with("local:c");
  if (state->local) {
    // Only local devices are asked. With a server, GPU memory needs a memory
    // socket and a CUDA driver here.
    const auto info = state->client->GetServerInfo();
    state->takes_device =
        info.ok() && !info->devices.empty() && info->devices[0].kind == "cuda";
  } else {
    state->takes_device =
        !options.memory_socket.empty() && client::CudaDriver::Get().ok();
  }
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}

Engine::~Engine() {
  if (forked()) {
    // The client's threads do not exist in this process, and its locks may be
    // held forever.
    (void)state_.release();
    return;
  }
  Close();
}

bool Engine::forked() const { return state_->process != getpid(); }

bool Engine::Inherited() {
  const pid_t first = owner;
  return first != 0 && first != getpid();
}

Engine::Scope::Scope(Engine* engine, const CancellationToken& stop)
    : engine_(engine), stop_(stop) {
  State& state = *engine_->state_;
  const std::lock_guard lock(state.mutex);
  state.calls.insert(this);
}

Engine::Scope::~Scope() {
  State& state = *engine_->state_;
  const std::lock_guard lock(state.mutex);
  state.calls.erase(this);
  if (state.calls.empty()) state.idle.notify_all();
}

absl::StatusOr<Answer> Engine::Call(const Scope& scope, wire::Method method,
                                    std::string_view header,
                                    absl::Span<const Bytes> payload,
                                    CallOptions call) {
  if (closed()) return absl::CancelledError("the connection was closed");
  Client& client = *state_->client;
  call.cancel = scope.stop_;
  if (!wire::SpecOf(method).tensor) {
    auto reply = client.Ask(method, std::string(header), call);
    if (!reply.ok()) return reply.status();
    return Answer{*std::move(reply), nullptr};
  }
  // A Dequantize plan also depends on the payload, so it is not remembered.
  const bool by_header = method != wire::Method::kDequantize;
  const auto known = by_header ? state_->Remembered(method, header) : nullptr;
  const auto request = ReadRequest(method, header, payload, known);
  if (!request.ok()) return request.status();
  if (by_header && known == nullptr) {
    state_->Remember(method, header, request->plan);
  }
  const std::vector<Bytes>& in = request->inputs;
  auto result = [&]() -> absl::StatusOr<Result> {
    const Plan& plan = *request->plan;
    const auto* const decoding =
        std::get_if<DequantizeOptions>(&plan.options());
    if (decoding == nullptr) return client.Run(plan, in[0], call);
    const Floats whole(in.size() > 2 ? in[2] : Bytes());
    // The options need either amaxes or global scales. This input is passed as
    // both, because only the right one is read.
    return client.Dequantize(plan.tensor(),
                             {in[0], in[1], whole.span(), whole.span()},
                             *decoding, call);
  }();
  if (!result.ok()) return result.status();
  auto kept = std::make_shared<const Result>(*std::move(result));
  return Answer{ReplyOf(*request->plan, *kept), kept, kept->attempts(),
                kept->request_id()};
}

absl::StatusOr<HostMemory> Engine::TakeHost(size_t bytes) {
  const Scope scope(this, CancellationToken());
  if (closed()) return absl::CancelledError("the connection was closed");
  return state_->client->TakeHost(bytes);
}

bool Engine::takes_device() const { return state_->takes_device; }

absl::Status Engine::Know(const std::byte* address) {
  if (state_->local) return absl::OkStatus();
  const auto driver = client::CudaDriver::Get();
  if (!driver.ok()) return driver.status();
  std::list<State::Known> forgotten;  // destroyed without the lock
  const std::lock_guard lock(state_->known_mutex);
  auto& known = state_->known;
  // The allocation used last moves to the front and is found first.
  const auto around = std::find_if(known.begin(), known.end(), [&](auto& k) {
    const absl::Span<const std::byte> bytes = k.memory.bytes();
    return address >= bytes.data() && address < bytes.data() + bytes.size();
  });
  if (around != known.end() && (*driver)->IdAt(address) == around->id) {
    known.splice(known.begin(), known, around);
    return absl::OkStatus();
  }
  const auto allocation = (*driver)->Find(address);
  if (!allocation.ok()) return allocation.status();
  const auto before = std::find_if(known.begin(), known.end(), [&](auto& k) {
    return k.memory.bytes().data() == allocation->bytes.data();
  });
  if (before != known.end()) {
    forgotten.splice(forgotten.end(), known, before);
  }
  auto memory = state_->client->RegisterDevice(address);
  if (!memory.ok()) return memory.status();
  known.push_front({*std::move(memory), allocation->id});
  if (known.size() > kKnown) {
    forgotten.splice(forgotten.end(), known, std::prev(known.end()));
  }
  return absl::OkStatus();
}

bool Engine::closed() const {
  const std::lock_guard lock(state_->mutex);
  return state_->closed;
}

void Engine::Close() {
  std::unique_lock lock(state_->mutex);
  state_->closed = true;
  for (const Scope* scope : state_->calls) scope->stop_.Cancel();
  state_->idle.wait(lock, [&] { return state_->calls.empty(); });
  const auto client = std::move(state_->client);
  const auto known = std::move(state_->known);
  lock.unlock();
}

}  // namespace quantd::python
