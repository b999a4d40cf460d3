#include "client/local/local_devices.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "client/call/error_details.h"
#include "client/local/local_call.h"
#include "client/tensors/result_builder.h"
#include "fmt/format.h"
#include "kernels/device/budget.h"
#include "kernels/device/devices.h"
#include "proto/answers.h"
#include "quantd/field_error.h"
#include "quantd/piece_options.h"

namespace quantd::client {

LocalDevices::LocalDevices(std::string target,
                           std::vector<std::unique_ptr<Backend>> backends,
                           size_t budget)
    : target_(std::move(target)),
      budget_(budget),
      admission_(backends.size(), budget / backends.size()),
      engine_(std::move(backends)) {}

absl::StatusOr<Result> LocalDevices::Run(const Call& asked, Way,
                                         const OnSent&) {
  const auto& [plan, payload, given, events, limit, control, none] = asked;
  if (auto s = Stopped(target_, limit, control); !s.ok()) return s;
  if (events.any()) {
    const absl::Status s = FieldError(
        "events", "none, because the devices belong to this process", "events");
    return Annotate(s, std::string(s.message()), 1);
  }
  std::vector<Destination> into(given.begin(), given.end());
  HostMemory own;
  if (has_gpu()) own = PlaceResults(plan, &into);
  LocalCall call(target_, plan, payload, into, limit, control);
  const auto lent = call.Lend();
  if (!lent.ok()) return lent.status();
  std::vector<size_t> needs;
  for (size_t i = 0; i < engine_.size(); ++i) {
    needs.push_back(engine_.backend(i).PoolBytes(plan, *lent));
  }
  const size_t least = *std::min_element(needs.begin(), needs.end());
  if (auto s = CheckPayload(least, admission_.per_device()); !s.ok()) {
    return Annotate(s, std::string(s.message()), 1);
  }
  const auto room = admission_.Enter(needs, limit.deadline, control);
  if (!room) return WhyStopped(target_, limit, control);
  auto result = call.Run(engine_, room->device());
  if (result.ok()) ResultBuilder::Keep(std::move(own), &*result);
  return result;
}

absl::StatusOr<HostMemory> LocalDevices::AllocateHost(size_t bytes) {
  auto memory = Endpoint::AllocateHost(bytes);
  if (!memory.ok() || !has_gpu()) return memory;
  // Unlocks the pages before it frees the memory.
  struct Locked {
    Locked(HostMemory m) : memory(std::move(m)), lock(memory.bytes(), true) {}
    HostMemory memory;
    PageLock lock;
  };
  const auto locked = std::make_shared<Locked>(*std::move(memory));
  return HostMemory(locked->memory.bytes(), locked, false);
}

namespace {

v1::GetServerInfoReply InfoOf(const Engine& engine, size_t budget,
                              size_t per_device) {
  std::vector<wire::DeviceState> devices;
  for (size_t i = 0; i < engine.size(); ++i) {
    const Backend& backend = engine.backend(i);
    const BackendStats stats = backend.stats();
    devices.push_back({backend.info(), stats, stats.healthy});
  }
  v1::GetServerInfoReply reply = wire::DescribeDevices(devices);
  reply.set_version(QUANTD_VERSION);
  v1::Limits& limits = *reply.mutable_limits();
  // There is no request to limit, but callers cut tensors into pieces of this
  // size and rely on memory for each piece.
  limits.set_max_request_bytes(
      LargestThat(PieceOptions().request_bytes, [&](size_t bytes) {
        return ExpectedPayload(
                   bytes,
                   wire::SpecOf(wire::Method::kQuantize).output_sixteenths) <=
               per_device;
      }));
  limits.set_memory_budget_bytes(budget);
  limits.set_max_rank(kMaxRank);
  return reply;
}

}  // namespace

absl::StatusOr<std::string> LocalDevices::Ask(wire::Method method,
                                              const std::string& request,
                                              const CallLimit& limit,
                                              CallControl& control) {
  if (auto s = Stopped(target_, limit, control); !s.ok()) return s;
  wire::Facts facts;
  facts.max_reply_payload = SIZE_MAX;
  facts.info = [this] {
    return InfoOf(engine_, budget_, admission_.per_device());
  };
  const std::string_view whole = request;
  auto answer = wire::AnswerRequest(method, {&whole, 1}, facts, "");
  if (!answer.ok()) return answer.status();
  return std::move(answer->reply);
}

namespace {

absl::Status CheckLocalOptions(const LocalOptions& options) {
  if (options.memory_budget != 0 && options.memory_budget < kLeastBudget) {
    return FieldError("local.memory_budget",
                      fmt::format("0 or at least {} bytes", kLeastBudget),
                      fmt::to_string(options.memory_budget));
  }
  const std::pair<const char*, int> counts[] = {
      {"local.slots", options.slots}, {"local.threads", options.threads}};
  for (const auto& [field, count] : counts) {
    if (count >= 0 && count <= 1024) continue;
    return FieldError(field, "0 to 1024", fmt::to_string(count));
  }
  return absl::OkStatus();
}

// Accepts names like "cpu", "cpu:0" and "cuda:3", but not the devices for tests
// that OpenBackend also knows.
bool IsDevice(std::string_view name) {
  const std::string_view kind = name.substr(0, name.find(':'));
  if (kind != "cpu" && kind != "cuda") return false;
  name.remove_prefix(kind.size());
  return name.empty() ||
         (name.size() > 1 &&
          name.find_first_not_of("0123456789", 1) == std::string_view::npos);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Endpoint>> OpenLocal(
    std::string_view target, const LocalOptions& options) {
  const std::string_view device = *LocalDevice(target);
  if (auto s = CheckLocalOptions(options); !s.ok()) return s;
  std::vector<std::string> names = {std::string(device)};
  if (target == "local") {
    names = DefaultBackends();
  } else if (!IsDevice(device)) {
    return FieldError("target", "local, local:cpu or local:cuda:N",
                      std::string(target));
  }
  const size_t budget =
      options.memory_budget != 0 ? options.memory_budget : DefaultBudget();
  BackendOptions each;
  each.memory_limit = budget / names.size();
  each.slots = options.slots;
  each.threads = options.threads;
  std::vector<std::unique_ptr<Backend>> backends;
  for (const std::string& name : names) {
    auto backend = OpenBackend(name, each);
    if (!backend.ok()) return backend.status();
    backends.push_back(*std::move(backend));
  }
  return std::make_unique<LocalDevices>(std::string(target),
                                        std::move(backends), budget);
}

}  // namespace quantd::client
