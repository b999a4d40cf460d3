#include "server/calls/reply.h"

#include <algorithm>
#include <utility>

#include "kernels/device/memory.h"
#include "proto/limits.h"
#include "proto/stream/chunks.h"

namespace quantd {
namespace {

constexpr size_t kPiece = 256 << 10;
static_assert(wire::kChunkBytes % kPiece == 0);

}  // namespace

// Members are destroyed last to first: the block must return to its pool before
// the lease returns to the gate, or the pool could be asked for more than it
// has.
struct Reply::Lent {
  Lease lease;
  Block block;
};

Reply::Reply(std::string head, JobOutput output, Lease lease, bool in_chunks)
    : head_(std::move(head)), size_(output.size), in_chunks_(in_chunks) {
  lent_ = std::make_shared<Lent>();
  if (!in_chunks && size_ <= kCopiedOutput) {
    if (size_ != 0) {
      head_.append(reinterpret_cast<const char*>(output.data()), size_);
    }
    output = {};
    given_ = size_;
    lease.ShrinkPayload(0);
    // A reply that is not read occupies memory until the call is over.
    lease.HoldReceiving(head_.size());
  } else {
    pieces_ += (size_ + kPiece - 1) / kPiece;
    lease.HoldReceiving(0);
    lease.ShrinkPayload(BlockPool::Charge(output.block.size()));
    lent_->block = std::move(output.block);
  }
  lent_->lease = std::move(lease);
}

void Reply::AppendTo(size_t end, std::vector<grpc::Slice>* slices) {
  struct Piece {
    std::shared_ptr<std::atomic<size_t>> left;
    std::shared_ptr<Lent> lent;
  };
  while (given_ < end) {
    const size_t n = std::min(kPiece, end - given_);
    slices->emplace_back(
        lent_->block.data() + given_, n,
        [](void* held) {
          const std::unique_ptr<Piece> piece(static_cast<Piece*>(held));
          piece->left->fetch_add(1);
        },
        new Piece{left_, lent_});
    given_ += n;
  }
}

std::optional<grpc::ByteBuffer> Reply::NextChunk() {
  if (!in_chunks_ || given_ == size_) return std::nullopt;
  const size_t end = std::min(size_, given_ + wire::kChunkBytes);
  std::vector<grpc::Slice> slices = {
      grpc::Slice(wire::ChunkPrefix(end - given_))};
  AppendTo(end, &slices);
  return grpc::ByteBuffer(slices.data(), slices.size());
}

grpc::ByteBuffer Reply::Last() {
  std::vector<grpc::Slice> slices = {grpc::Slice(head_)};
  AppendTo(size_, &slices);
  if (pieces_ > 1) lent_.reset();  // its pieces hold it
  return grpc::ByteBuffer(slices.data(), slices.size());
}

Reply::Verdict Reply::Look(const Connection& connection,
                           absl::Duration patience, absl::Duration max_send,
                           absl::Time now) {
  if (since_ == absl::InfinitePast()) since_ = moved_ = now;
  const size_t left = *left_;
  if (left == pieces_) return Verdict::kGood;
  if (left != seen_left_ || moved_ == now) {
    const auto sent = connection.Sent();
    seen_left_ = left;
    seen_taken_ = sent ? sent->taken : 0;
    moved_ = now;
  }
  const absl::Duration waited = now - moved_;
  const bool in_time =
      waited <= max_send &&
      now - since_ <= max_send + absl::Seconds(pieces_ * kPiece >> 20);
  if (in_time && waited <= patience) return Verdict::kGood;
  const auto sent = connection.Sent();
  const bool takes = sent && sent->taken >= seen_taken_ + kPiece;
  // Many replies share a connection: this one is slow only if all of the
  // connection is.
  if (in_time && takes && connection.countable()) {
    seen_taken_ = sent->taken;
    moved_ = now;
    return Verdict::kGood;
  }
  // Cancelling the call would not free the bytes that wait in its socket.
  return sent && sent->waiting != 0 && !takes ? Verdict::kStuck
                                              : Verdict::kSlow;
}

}  // namespace quantd
