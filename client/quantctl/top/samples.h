// A page of Prometheus text, sample by sample. Whoever serves it is not
// trusted: what cannot be read is passed over and counted.
#ifndef QUANTD_CLIENT_QUANTCTL_TOP_SAMPLES_H_
#define QUANTD_CLIENT_QUANTCTL_TOP_SAMPLES_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"

namespace quantd::quantctl {

struct Sample {
  std::string_view name;
  // In order; values unescaped, cut at 64 bytes, and every byte that is no
  // printable ASCII a question mark: they go to terminals.
  std::vector<std::pair<std::string_view, std::string>> labels;
  double value = 0;  // finite, and 10^18 at most

  // The value of a label; empty where there is none of that name.
  std::string_view operator[](std::string_view label) const;
};

// Returns how many lines were neither samples nor comments.
size_t ForEachSample(std::string_view page,
                     absl::FunctionRef<void(const Sample&)> visit);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_TOP_SAMPLES_H_
