// Hashes that tell whether bytes are still those that were written: against
// accidents, not against forgers.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_CONTENT_HASH_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_CONTENT_HASH_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace quantd::checkpoint {

// XXH3, 128 bits, of bytes given in pieces. Movable.
class ContentHash {
 public:
  ContentHash();
  ContentHash(ContentHash&&) noexcept = default;
  ContentHash& operator=(ContentHash&&) noexcept = default;

  void Add(absl::Span<const std::byte> bytes);
  void Add(std::string_view text);
  std::string Hex() const;  // 32 digits

 private:
  struct Free {
    void operator()(void* state) const;
  };
  std::unique_ptr<void, Free> state_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_CONTENT_HASH_H_
