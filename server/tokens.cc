#include "server/tokens.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "proto/net/pem.h"

namespace quantd {
namespace {

// Each is compared with every token that comes.
constexpr size_t kMostTokens = 1024;
constexpr size_t kHashDigits = 64;

std::string_view Stripped(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t from = text.find_first_not_of(kBlank);
  if (from == std::string_view::npos) return "";
  return text.substr(from, text.find_last_not_of(kBlank) + 1 - from);
}

}  // namespace

std::optional<TokenHashes::Hash> TokenHashes::HashOf(std::string_view token) {
  Hash hash;
  unsigned int size = 0;
  if (EVP_Digest(token.data(), token.size(), hash.data(), &size, EVP_sha256(),
                 nullptr) != 1 ||
      size != hash.size()) {
    return std::nullopt;
  }
  return hash;
}

absl::StatusOr<TokenHashes> TokenHashes::Load(const std::string& path) {
  const std::string what = fmt::format("--token-file {}", path);
  const auto text = security::ReadSmallFile(what, path);
  if (!text.ok()) return text.status();
  TokenHashes tokens;
  std::istringstream lines(*text);
  std::string whole;
  for (int number = 1; std::getline(lines, whole); ++number) {
    const std::string_view line = Stripped(whole);
    if (line.empty() || line.front() == '#') continue;
    const std::string_view digits = line.substr(0, line.find_first_of(" \t"));
    Hash hash;
    bool legal = digits.size() == kHashDigits;
    for (size_t i = 0; legal && i < hash.size(); ++i) {
      const char* const two = digits.data() + 2 * i;
      legal = absl::ascii_isxdigit(two[0]) &&
              std::from_chars(two, two + 2, hash[i], 16).ptr == two + 2;
    }
    // The line is not repeated: it may be a token in clear.
    if (!legal) {
      return absl::FailedPreconditionError(fmt::format(
          "{}: line {} does not begin with the 64 hexadecimal digits of a "
          "SHA-256; make one with: printf %s \"$TOKEN\" | sha256sum",
          what, number));
    }
    // No call brings such a token, and whoever made the line meant another.
    if (hash == HashOf("")) {
      return absl::FailedPreconditionError(fmt::format(
          "{}: line {} is the SHA-256 of nothing: the variable was empty when "
          "the line was made; make it anew: printf %s \"$TOKEN\" | sha256sum",
          what, number));
    }
    if (tokens.hashes_.size() == kMostTokens) {
      return absl::FailedPreconditionError(
          fmt::format("{}: more than {} tokens", what, kMostTokens));
    }
    tokens.hashes_.push_back(hash);
  }
  if (tokens.hashes_.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: names no token, so nobody could call; add a line with the "
        "SHA-256 of one: printf %s \"$TOKEN\" | sha256sum",
        what));
  }
  return tokens;
}

bool TokenHashes::Knows(std::string_view token) const {
  const std::optional<Hash> hash = HashOf(token);
  if (!hash) return false;
  bool known = false;
  for (const Hash& one : hashes_) {
    known |= CRYPTO_memcmp(one.data(), hash->data(), hash->size()) == 0;
  }
  return known;
}

std::string_view BearerToken(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view scheme = authorization.substr(0, kScheme.size());
  const bool named =
      std::equal(scheme.begin(), scheme.end(), kScheme.begin(), kScheme.end(),
                 [](char a, char b) { return absl::ascii_tolower(a) == b; });
  return named ? Stripped(authorization.substr(kScheme.size())) : "";
}

}  // namespace quantd
