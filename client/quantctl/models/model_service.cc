#include "client/quantctl/models/model_service.h"

#include <algorithm>
#include <string>
#include <utility>

#include "client/tensors/piece_work.h"

namespace quantd::quantctl {
namespace {

// `workers` is the number of servers or of devices that work at once. `request`
// is the largest request in bytes that a server accepts.
checkpoint::Pace PaceFor(const Options& options, uint64_t memory_mib,
                         size_t request, size_t workers) {
  workers = std::max(workers, 1 + static_cast<size_t>(
                                      std::ranges::count(options.server, ',')));
  PieceOptions pieces;
  if (request > 0) pieces.request_bytes = request;
  checkpoint::Pace pace;
  pace.in_process = options.server.starts_with("local");
  // Three calls for every worker, with pieces that fit into the memory limit.
  pace.at_once = static_cast<int>(std::min<size_t>(3 * workers, 64));
  pace.piece_bytes = std::min(pace.piece_bytes, client::Room(pieces));
  const uint64_t most = memory_mib << 20;
  while (pace.memory() > most && pace.at_once > 1) --pace.at_once;
  while (pace.memory() > most) pace.piece_bytes /= 2;
  return pace;
}

}  // namespace

checkpoint::Pace PaceOf(const Options& options, uint64_t memory_mib) {
  return PaceFor(options, memory_mib, 0, 1);
}

int ModelService::Open(const Options& options, uint64_t memory_mib,
                       std::unique_ptr<ModelService>* made) {
  auto client = Connect(options);
  if (!client.ok()) return FailToConnect(options, client.status());
  const auto info = (*client)->GetServerInfo(CallOf(options));
  if (!info.ok()) return Fail(options, CodeOf(info.status()), info.status());
  made->reset(new ModelService(options, *std::move(client)));
  (*made)->pace_ = PaceFor(options, memory_mib, info->max_request_bytes,
                           info->devices.size());
  return kOk;
}

absl::StatusOr<Result> ModelService::Quantize(const TensorDesc& tensor,
                                              absl::Span<const std::byte> bytes,
                                              const QuantizeOptions& o) {
  auto made = client_->Quantize(tensor, bytes, o, CallOf(options_));
  const auto& way = options_.transport;
  if (made.ok() && way && made->transport() != *way) {
    made = OtherWay(*way, std::string(Name(made->transport())));
  }
  if (!made.ok()) {
    const std::lock_guard lock(mutex_);
    failure_.Update(made.status());
  }
  return made;
}

absl::StatusOr<HostMemory> ModelService::Allocate(size_t bytes) {
  return client::Allocate(*client_, bytes);
}

absl::Status ModelService::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace quantd::quantctl
