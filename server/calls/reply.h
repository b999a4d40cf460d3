// A reply being sent in pieces, so that its progress can be measured.
#ifndef QUANTD_SERVER_CALLS_REPLY_H_
#define QUANTD_SERVER_CALLS_REPLY_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/calls/payload.h"
#include "server/gate/lease.h"
#include "server/net/connection.h"

namespace quantd {

// Look may be called by one thread while another calls the rest.
class Reply {
 public:
  // Sends head and output as one message or, with `in_chunks`, the output in
  // messages of its own and then the head. The output is not copied unless it
  // is small. Output and lease are released when gRPC has let go of every
  // piece.
  Reply(std::string head, JobOutput output, Lease lease, bool in_chunks);
  // The next message before the last one; nullopt when there are no more.
  std::optional<grpc::ByteBuffer> NextChunk();
  // The last message. Must be called once, after all chunks.
  grpc::ByteBuffer Last();
  void LastIsSent() { left_->fetch_add(1); }

  enum class Verdict {
    kGood,
    kSlow,   // the peer reads, but not this reply
    kStuck,  // the peer reads nothing from the connection
  };
  // Checks whether the reply leaves. Each piece must leave within `patience`,
  // and the whole within `max_send` plus a second for each MiB.
  Verdict Look(const Connection& connection, absl::Duration patience,
               absl::Duration max_send, absl::Time now);

 private:
  struct Lent;
  // Appends the output up to `end`.
  void AppendTo(size_t end, std::vector<grpc::Slice>* slices);

  std::string head_;
  const size_t size_;
  const bool in_chunks_;
  size_t given_ = 0;
  size_t pieces_ = 1;  // the last message counts as one
  // Pieces that the network has released. Slices may outlive the call.
  const std::shared_ptr<std::atomic<size_t>> left_ =
      std::make_shared<std::atomic<size_t>>(0);
  std::shared_ptr<Lent> lent_;

  // State of the last Look.
  absl::Time since_ = absl::InfinitePast();
  absl::Time moved_;
  size_t seen_left_ = 0;
  uint64_t seen_taken_ = 0;  // bytes that the peer had taken at `moved_`
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_REPLY_H_
