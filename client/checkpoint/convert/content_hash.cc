#include "client/checkpoint/convert/content_hash.h"

// Header-only, so that nothing is linked and everything can be inlined.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fmt/format.h"

namespace quantd::checkpoint {

void ContentHash::Free::operator()(void* state) const {
  XXH3_freeState(static_cast<XXH3_state_t*>(state));
}

ContentHash::ContentHash() : state_(XXH3_createState()) {
  XXH3_128bits_reset(static_cast<XXH3_state_t*>(state_.get()));
}

void ContentHash::Add(absl::Span<const std::byte> bytes) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state_.get()), bytes.data(),
                      bytes.size());
}

void ContentHash::Add(std::string_view text) {
  Add({reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

std::string ContentHash::Hex() const {
  const XXH128_hash_t hash =
      XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state_.get()));
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace quantd::checkpoint
