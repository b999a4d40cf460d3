#include "server/calls/reply_pieces.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "proto/stream/chunks.h"

namespace quantd {
namespace {

constexpr size_t kPiece = 256 << 10;
// Others wait, and not one piece has left for so long: 1 MiB/s.
constexpr absl::Duration kPatience = absl::Milliseconds(250);

// The block goes back to its pool before the charge goes back to the ledger, or
// the pool could be asked for more than it has: members are destroyed last to
// first.
struct LentOutput {
  std::shared_ptr<ReplyProgress> progress;
  MemoryCharge charge;
  Block block;
};

void ReturnPiece(void* lent) {
  auto* const output = static_cast<LentOutput*>(lent);
  const std::shared_ptr<ReplyProgress> progress = output->progress;
  if (progress->left.fetch_add(1, std::memory_order_acq_rel) + 1 ==
      progress->pieces) {
    delete output;
  }
}

}  // namespace

grpc::ByteBuffer MakeReply(std::string_view head, Block output, size_t size,
                           MemoryCharge charge,
                           std::shared_ptr<ReplyProgress> progress) {
  std::byte* const data = output.data();
  progress->pieces = (size + kPiece - 1) / kPiece;
  auto* const lent =
      new LentOutput{std::move(progress), std::move(charge), std::move(output)};
  std::vector<grpc::Slice> slices = {grpc::Slice(head.data(), head.size())};
  for (size_t at = 0; at < size; at += kPiece) {
    slices.emplace_back(data + at, std::min(kPiece, size - at), ReturnPiece,
                        lent);
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

// Members are destroyed last to first, as above.
struct ReplyChunks::Lent {
  std::shared_ptr<ReplyProgress> progress;
  MemoryCharge charge;
  Block block;
};

ReplyChunks::ReplyChunks(Block output, size_t size, MemoryCharge charge,
                         std::shared_ptr<ReplyProgress> progress)
    : lent_(std::make_shared<Lent>(
          Lent{std::move(progress), std::move(charge), std::move(output)})),
      size_(size) {
  static_assert(wire::kChunkBytes % kPiece == 0);
  lent_->progress->pieces = (size + kPiece - 1) / kPiece + 1;
}

std::optional<grpc::ByteBuffer> ReplyChunks::Next() {
  if (given_ == size_) return std::nullopt;
  const size_t end = std::min(size_, given_ + wire::kChunkBytes);
  std::vector<grpc::Slice> slices = {
      grpc::Slice(wire::ChunkPrefix(end - given_))};
  while (given_ < end) {
    const size_t n = std::min(kPiece, end - given_);
    slices.emplace_back(
        lent_->block.data() + given_, n,
        [](void* held) {
          const std::unique_ptr<std::shared_ptr<Lent>> lent(
              static_cast<std::shared_ptr<Lent>*>(held));
          (*lent)->progress->left.fetch_add(1, std::memory_order_acq_rel);
        },
        new std::shared_ptr<Lent>(lent_));
    given_ += n;
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

SendWatch::Verdict SendWatch::Look(const ReplyProgress& progress,
                                   const Connection& connection,
                                   absl::Duration max_send, bool awaited,
                                   absl::Time now) {
  if (since_ == absl::InfinitePast()) since_ = moved_ = now;
  const size_t left = progress.left.load(std::memory_order_relaxed);
  if (left == progress.pieces) return Verdict::kGood;
  if (left != left_ || moved_ == now) {
    left_ = left;
    moved_ = now;
    const auto sent = connection.Sent();
    taken_ = sent ? sent->taken : 0;
  }
  const absl::Duration whole =
      max_send + absl::Seconds(progress.pieces * kPiece >> 20);
  if (now - moved_ <= max_send && now - since_ <= whole) {
    if (!awaited || now - moved_ <= kPatience) return Verdict::kGood;
    // Many replies share a connection: it is slow if all of it is.
    const auto sent = connection.Sent();
    if (sent && connection.countable() && sent->taken >= taken_ + kPiece) {
      taken_ = sent->taken;
      moved_ = now;
      return Verdict::kGood;
    }
  }
  // What the socket holds back no cancelled call sets free.
  const auto sent = connection.Sent();
  return sent && sent->waiting != 0 && sent->taken < taken_ + kPiece
             ? Verdict::kStuck
             : Verdict::kSlow;
}

}  // namespace quantd
