// The README's account of the GPU's speed, from the results of gpu_bench.
#ifndef QUANTD_TESTS_BENCH_GPU_BENCH_README_H_
#define QUANTD_TESTS_BENCH_GPU_BENCH_README_H_

#include <string>

namespace quantd::bench {

// Rewrites the marked section of the file `readme` from the results in the file
// `json`. Empty, or why it could not.
std::string UpdateReadme(const std::string& readme, const std::string& json);

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_GPU_BENCH_README_H_
