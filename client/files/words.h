// Lists of words, and texts that hold them.
#ifndef QUANTD_CLIENT_FILES_WORDS_H_
#define QUANTD_CLIENT_FILES_WORDS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <ranges>
#include <string_view>
#include <vector>

namespace quantd {

// A list of words that are written as one text, with spaces and ends of lines
// between them. The compiler splits the text.
class Words {
 public:
  consteval Words(const char* text) {  // NOLINT: converts
    for (std::string_view rest = text;;) {
      rest.remove_prefix(std::min(rest.find_first_not_of(" \n"), rest.size()));
      if (rest.empty()) return;
      words_[size_] = rest.substr(0, rest.find_first_of(" \n"));
      rest.remove_prefix(words_[size_++].size());
    }
  }
  // A list of one word.
  constexpr explicit Words(std::string_view word) : words_{word}, size_(1) {}
  constexpr const std::string_view* begin() const { return words_.data(); }
  constexpr const std::string_view* end() const { return begin() + size_; }
  constexpr std::string_view front() const { return words_.front(); }
  constexpr size_t size() const { return size_; }

 private:
  std::array<std::string_view, 128> words_;
  size_t size_ = 0;
};

template <typename List>
bool Has(const List& list, std::string_view word) {
  return std::ranges::find(list, word) != std::ranges::end(list);
}

template <typename List>
bool HoldsOneOf(std::string_view text, const List& words) {
  return std::ranges::any_of(words, [&](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  });
}

template <typename List>
bool StartsWithOneOf(std::string_view text, const List& words) {
  return std::ranges::any_of(
      words, [&](std::string_view word) { return text.starts_with(word); });
}

template <typename List>
bool EndsWithOneOf(std::string_view text, const List& words) {
  return std::ranges::any_of(
      words, [&](std::string_view word) { return text.ends_with(word); });
}

// Splits the text at each `at`. Text without `at` is one part.
inline std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_WORDS_H_
