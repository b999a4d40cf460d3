// Hashes that detect accidental changes of bytes. They do not protect against
// deliberate changes.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_CONTENT_HASH_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_CONTENT_HASH_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace quantd::checkpoint {

// The 128-bit XXH3 hash of bytes that are added in pieces. Movable.
class ContentHash {
 public:
  ContentHash();
  ContentHash(ContentHash&&) noexcept = default;
  ContentHash& operator=(ContentHash&&) noexcept = default;

  void Add(absl::Span<const std::byte> bytes);
  void Add(std::string_view text);
  std::string Hex() const;  // 32 hexadecimal digits

 private:
  struct Free {
    void operator()(void* state) const;
  };
  std::unique_ptr<void, Free> state_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_CONTENT_HASH_H_
