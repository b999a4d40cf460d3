#include "kernels/device/memory_limit.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace quantd {
namespace {

std::vector<std::string> LinesOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Reads a limit from a file. SIZE_MAX if it is absent, "max", or not a number.
size_t ReadLimit(const std::string& path) {
  std::string word;
  uint64_t bytes = 0;
  std::ifstream(path) >> word;
  return absl::SimpleAtoi(word, &bytes) ? bytes : SIZE_MAX;
}

// Decodes text of mountinfo, where spaces and similar characters are octal:
// "\040".
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = text.substr(i).substr(0, 4);
    if (digits.size() == 4 && digits[0] == '\\' &&
        std::all_of(digits.begin() + 1, digits.end(),
                    [](char c) { return c >= '0' && c <= '7'; })) {
      plain += static_cast<char>((digits[1] - '0') * 64 +
                                 (digits[2] - '0') * 8 + (digits[3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

bool HasWord(const std::string& list, std::string_view word) {
  const std::vector<std::string> words = absl::StrSplit(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// A mounted tree of control groups that limits memory.
struct Hierarchy {
  int version = 0;
  std::string at;    // the mount point
  std::string from;  // the group at the mount point: "/", or a container's own
};

// Reads mountinfo, described in proc(5). A line has fields up to a single "-"
// (the fourth is the root within the file system, the fifth the mount point),
// then type, source and options.
std::vector<Hierarchy> MountedHierarchies(const std::string& root) {
  std::vector<Hierarchy> found;
  for (const std::string& line : LinesOf(root + "/proc/self/mountinfo")) {
    const std::vector<std::string> halves =
        absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    if (halves.size() != 2) continue;
    const std::vector<std::string> place = absl::StrSplit(halves[0], ' ');
    const std::vector<std::string> what = absl::StrSplit(halves[1], ' ');
    if (place.size() < 5 || what.size() < 3) continue;
    const int version = what[0] == "cgroup2"                                ? 2
                        : what[0] == "cgroup" && HasWord(what[2], "memory") ? 1
                                                                            : 0;
    if (version == 0) continue;
    found.push_back({version, Unescaped(place[4]), Unescaped(place[3])});
  }
  return found;
}

// This process's group in the tree of that version, from a line
// "number:controllers:/path".
std::string GroupOf(const std::string& root, int version) {
  for (const std::string& line : LinesOf(root + "/proc/self/cgroup")) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (version == 2 ? parts[0] == "0" && parts[1].empty()
                     : HasWord(parts[1], "memory")) {
      return parts[2];
    }
  }
  return "/";
}

}  // namespace

size_t ControlGroupMemoryLimit(const std::string& root) {
  size_t least = SIZE_MAX;
  for (const Hierarchy& tree : MountedHierarchies(root)) {
    // In a container the mount point is the container's own group, but the name
    // that GroupOf returns may be the host's. So a name that does not exist
    // below the mount point stands for the mount point itself.
    std::string group = GroupOf(root, tree.version);
    if (tree.from != "/") {
      group = group.starts_with(tree.from) ? group.substr(tree.from.size())
                                           : std::string();
    }
    const std::vector<std::string> below =
        absl::StrSplit(group, '/', absl::SkipEmpty());
    std::string folder = root + tree.at;
    for (size_t level = 0;; ++level) {
      if (tree.version == 2) {
        least = std::min({least, ReadLimit(folder + "/memory.max"),
                          ReadLimit(folder + "/memory.high")});
      } else {
        least = std::min(least, ReadLimit(folder + "/memory.limit_in_bytes"));
      }
      if (level == below.size() || below[level] == "..") break;
      folder.append("/").append(below[level]);
    }
  }
  return least;
}

}  // namespace quantd
