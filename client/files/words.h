// Lists of words, and texts that hold them.
#ifndef QUANTD_CLIENT_FILES_WORDS_H_
#define QUANTD_CLIENT_FILES_WORDS_H_

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <vector>

namespace quantd {

// The words of a text, between which there are spaces and ends of lines.
class Words {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using difference_type = ptrdiff_t;
    using value_type = std::string_view;
    using pointer = const std::string_view*;
    using reference = std::string_view;

    constexpr Iterator() = default;
    constexpr explicit Iterator(std::string_view rest) : rest_(rest) { Skip(); }
    constexpr std::string_view operator*() const {
      return rest_.substr(0, rest_.find_first_of(kBetween));
    }
    constexpr Iterator& operator++() {
      rest_.remove_prefix((**this).size());
      Skip();
      return *this;
    }
    constexpr Iterator operator++(int) {
      const Iterator old = *this;
      ++*this;
      return old;
    }
    constexpr bool operator==(const Iterator& other) const {
      return rest_.size() == other.rest_.size();
    }

   private:
    static constexpr std::string_view kBetween = " \n";
    constexpr void Skip() {
      rest_.remove_prefix(
          std::min(rest_.find_first_not_of(kBetween), rest_.size()));
    }
    std::string_view rest_;
  };

  constexpr Words(const char* text) : text_(text) {}  // NOLINT: converts
  constexpr explicit Words(std::string_view text) : text_(text) {}
  constexpr Iterator begin() const { return Iterator(text_); }
  constexpr Iterator end() const { return Iterator(); }
  constexpr std::string_view front() const { return *begin(); }
  constexpr size_t size() const {
    return static_cast<size_t>(std::distance(begin(), end()));
  }

 private:
  std::string_view text_;
};

template <typename List>
bool Has(const List& list, std::string_view word) {
  return std::ranges::find(list, word) != std::end(list);
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
