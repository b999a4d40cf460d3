// The numbers that a tokenizer gives to pieces of text.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_TOKEN_IDS_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_TOKEN_IDS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace quantd::checkpoint {

// Those of the largest vocabularies have some 35 MB.
inline constexpr size_t kMaxTokenizerBytes = size_t{128} << 20;

// The largest of a tokenizer.json, special tokens aside, which text does not
// become: some models have them beyond their embeddings, for pictures. -1: it
// names none. INVALID_ARGUMENT for what is no JSON; memory does not grow with
// the number of words, but for the file's text.
absl::StatusOr<int64_t> LargestTokenId(const std::string& path);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_TOKEN_IDS_H_
