// A reply on its way to the network: in pieces, so that it can be seen how much
// of it has left.
#ifndef QUANTD_SERVER_CALLS_REPLY_PIECES_H_
#define QUANTD_SERVER_CALLS_REPLY_PIECES_H_

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/time/time.h"
#include "kernels/device/memory.h"
#include "server/gate/ledger.h"
#include "server/net/connection.h"

namespace quantd {

// Any thread.
struct ReplyProgress {
  size_t pieces = 0;
  std::atomic<size_t> left = 0;  // the network holds them no more
};

// `head` and `output` as one message over the block, which stays where it is.
// Block and charge go back when gRPC has let go of every piece.
grpc::ByteBuffer MakeReply(std::string_view head, Block output, size_t size,
                           MemoryCharge charge,
                           std::shared_ptr<ReplyProgress> progress);

// The same in chunks of a stream, one after the other; the progress counts one
// piece more, for what follows the last of them.
class ReplyChunks {
 public:
  ReplyChunks(Block output, size_t size, MemoryCharge charge,
              std::shared_ptr<ReplyProgress> progress);
  // The next message; nothing when there is none.
  std::optional<grpc::ByteBuffer> Next();

 private:
  struct Lent;
  const std::shared_ptr<Lent> lent_;
  const size_t size_;
  size_t given_ = 0;
};

// Whether a reply leaves. One thread.
class SendWatch {
 public:
  enum class Verdict {
    kGood,
    kSlow,   // the peer does not take this reply
    kStuck,  // it takes nothing at all
  };
  // `max_send`: without progress, and for the whole beside a second for each
  // MiB. `awaited`: others wait for the memory.
  Verdict Look(const ReplyProgress& progress, const Connection& connection,
               absl::Duration max_send, bool awaited, absl::Time now);

 private:
  absl::Time since_ = absl::InfinitePast();
  absl::Time moved_;
  size_t left_ = 0;
  uint64_t taken_ = 0;  // by the connection, at `moved_`
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_REPLY_PIECES_H_
