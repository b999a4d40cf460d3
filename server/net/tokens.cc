#include "server/net/tokens.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "proto/net/pem.h"

namespace quantd {
namespace {

// Every incoming token is compared with all of them.
constexpr size_t kMostTokens = 1024;
constexpr size_t kHashDigits = 64;

std::string_view Stripped(std::string_view text) {
  const auto stripped =
      absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size()));
  return {stripped.data(), stripped.size()};
}

// Parses "Quantize,Dequantize" into bits.
std::optional<uint32_t> ParseMethods(std::string_view list) {
  uint32_t methods = 0;
  for (const std::string& name :
       std::vector<std::string>(absl::StrSplit(std::string(list), ','))) {
    const auto* const row =
        std::ranges::find_if(wire::kMethods, [&](const wire::MethodSpec& spec) {
          return wire::Name(spec.method) == name;
        });
    if (row == std::end(wire::kMethods)) return std::nullopt;
    methods |= 1u << wire::Index(row->method);
  }
  return methods;
}

// Applies "key=value" to the caller. The error says what is legal, and does not
// repeat the text.
absl::Status Grant(std::string_view setting, Caller* caller) {
  const size_t equals = setting.find('=');
  const std::string_view key = setting.substr(0, equals);
  const std::string_view value = setting.substr(equals + 1);
  const auto expected = [](const char* what) {
    return absl::FailedPreconditionError(what);
  };
  if (key == "methods") {
    const auto methods = ParseMethods(value);
    if (!methods) {
      return expected(
          "has methods= without names of methods, separated by commas");
    }
    caller->methods = *methods;
  } else if (key == "priority") {
    if (value != "high" && value != "normal") {
      return expected(
          "has a priority= other than high (calls may go first) or normal");
    }
    caller->may_be_high = value == "high";
  } else {
    return expected("has other settings than methods= and priority=");
  }
  return absl::OkStatus();
}

// SHA-256 of the token; empty if this OpenSSL has none.
std::string HashOf(std::string_view token) {
  std::string hash(kHashDigits / 2, '\0');
  const bool made = EVP_Digest(token.data(), token.size(),
                               reinterpret_cast<uint8_t*>(hash.data()), nullptr,
                               EVP_sha256(), nullptr) == 1;
  return made ? hash : "";
}

// Parses what follows the digits. A token without a name is named by its first
// digits, which are no secret.
absl::StatusOr<Caller> ReadCaller(std::string_view digits,
                                  std::string_view rest) {
  constexpr size_t kMostOfName = 64;
  constexpr size_t kDigitsOfName = 12;
  Caller caller;
  bool first = true;
  std::string name;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(
           std::string(rest), absl::ByAnyChar(" \t\r"), absl::SkipEmpty()))) {
    if (word.find('=') != std::string::npos) {
      if (auto s = Grant(word, &caller); !s.ok()) return s;
    } else if (first) {
      name = word;
    }
    first = false;
  }
  // sha256sum prints - for standard input.
  if (name.empty() || name == "-" || name == "*-") {
    name = std::string(digits.substr(0, kDigitsOfName));
  }
  caller.identity = "token:" + name.substr(0, kMostOfName);
  return caller;
}

}  // namespace

std::optional<Priority> ParsePriority(std::string_view text) {
  if (text == "high") return Priority::kHigh;
  if (text == "normal") return Priority::kNormal;
  if (text == "low") return Priority::kLow;
  return std::nullopt;
}

absl::StatusOr<TokenHashes> TokenHashes::Load(const std::string& path) {
  const std::string what = fmt::format("--token-file {}", path);
  const auto text = security::ReadSmallFile(what, path);
  if (!text.ok()) return text.status();
  TokenHashes tokens;
  std::istringstream lines(*text);
  std::string whole;
  int number = 0;
  const auto refuse = [&](std::string_view why) {
    return absl::FailedPreconditionError(
        fmt::format("{}: line {} {}", what, number, why));
  };
  while (std::getline(lines, whole)) {
    ++number;
    const std::string_view line = Stripped(whole);
    if (line.empty() || line.front() == '#') continue;
    const std::string_view digits = line.substr(0, line.find_first_of(" \t"));
    // The line is not repeated: it may be a token in clear.
    if (digits.size() != kHashDigits ||
        !std::ranges::all_of(digits, absl::ascii_isxdigit)) {
      return refuse(
          "does not begin with the 64 hexadecimal digits of a SHA-256; make "
          "one with: printf %s \"$TOKEN\" | sha256sum");
    }
    std::string hash = absl::HexStringToBytes(std::string(digits));
    // No call can bring an empty token: the line was made from an empty
    // variable.
    if (hash == HashOf("")) {
      return refuse(
          "is the SHA-256 of nothing: the variable was empty when the line was "
          "made; make it anew: printf %s \"$TOKEN\" | sha256sum");
    }
    if (tokens.callers_.size() == kMostTokens) {
      return refuse(
          fmt::format("is one more than the limit of {} tokens", kMostTokens));
    }
    const auto caller = ReadCaller(digits, line.substr(kHashDigits));
    if (!caller.ok()) return refuse(std::string(caller.status().message()));
    tokens.callers_.emplace_back(std::move(hash), *caller);
  }
  if (tokens.callers_.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: names no token, so nobody could call; add a line with the "
        "SHA-256 of one: printf %s \"$TOKEN\" | sha256sum",
        what));
  }
  return tokens;
}

const Caller* TokenHashes::Find(std::string_view token) const {
  const std::string hash = HashOf(token);
  if (hash.empty()) return nullptr;
  const Caller* found = nullptr;
  for (const auto& [known, caller] : callers_) {
    if (CRYPTO_memcmp(known.data(), hash.data(), hash.size()) == 0) {
      found = &caller;
    }
  }
  return found;
}

std::string_view BearerToken(std::string_view authorization) {
  const std::string scheme(authorization.substr(0, 7));
  return absl::EqualsIgnoreCase(scheme, "bearer ")
             ? Stripped(authorization.substr(scheme.size()))
             : "";
}

}  // namespace quantd
