#include "tests/kernels/contract/formats_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "fmt/format.h"
#include "tests/kernels/contract/contract.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::QuantizeSpec;

size_t Stride() {
  const char* text = std::getenv("QUANTD_CONTRACT_STRIDE");
  return text ? std::max<size_t>(1, std::strtoul(text, nullptr, 10)) : 1;
}

}  // namespace

void FormatsComparison::SetUp() {
  for (const Target& target : Targets()) {
    if (target.device == "cuda") continue;  // stands for a missing one
    BackendOptions options;
    options.threads = 2;
    auto device = Device::Open(target, options);
    ASSERT_THAT(device, IsOk());
    names_.push_back(ToString(target));
    devices_.push_back(*std::move(device));
  }
}

void FormatsComparison::TearDown() {
  if (combinations_ == 0) return;
  std::cout << fmt::format(
      "[ COMPARED ] {} on {} devices: {} combinations, {} elements each\n",
      GetParam().name, devices_.size(), combinations_, elements_);
}

bool FormatsComparison::Chosen() { return run_++ % Stride() == 0; }

void FormatsComparison::Check(const testing::AssertionResult& result) {
  if (!result) ++failures_;
  EXPECT_TRUE(result);
}

void FormatsComparison::SameFloats(const std::string& what,
                                   const std::vector<float>& want,
                                   const std::vector<float>& got) {
  const auto bytes = [](const std::vector<float>& v) {
    const auto* p = reinterpret_cast<const uint8_t*>(v.data());
    return Bytes(p, p + v.size() * sizeof(float));
  };
  Check(BytesEq(what, bytes(want), bytes(got)));
}

void FormatsComparison::Same(const std::string& what, const oracle::Copy& want,
                             const oracle::Copy& got, bool statistics) {
  Check(BytesEq(what + " codes", want.data, got.data));
  Check(BytesEq(what + " scales", want.scale, got.scale));
  SameFloats(what + " amax", want.amax, got.amax);
  if (want.data_offsets != got.data_offsets ||
      want.scale_offsets != got.scale_offsets) {
    Check(testing::AssertionFailure() << what << ": other group offsets");
  }
  if (!statistics) return;
  const oracle::Statistics& a = want.stats;
  const oracle::Statistics& b = got.stats;
  const auto same_ratio = [](double x, double y) {
    return x == y || (std::isnan(x) && std::isnan(y));
  };
  if (a.elements != b.elements || a.clipped != b.clipped ||
      a.flushed != b.flushed || a.max_error != b.max_error ||
      a.signal != b.signal || a.noise != b.noise ||
      !same_ratio(a.sqnr_db, b.sqnr_db)) {
    Check(testing::AssertionFailure()
          << fmt::format("{} statistics: expected {} {} {} {} {} {}, got {} "
                         "{} {} {} {} {}",
                         what, a.elements, a.clipped, a.flushed, a.max_error,
                         a.signal, a.noise, b.elements, b.clipped, b.flushed,
                         b.max_error, b.signal, b.noise));
  }
}

void FormatsComparison::Quantize(const std::string& what,
                                 const QuantizeSpec& spec, const Bytes& x) {
  const oracle::Quantized want = oracle::Quantize(spec, x);
  elements_ += spec.rows * spec.cols;
  for (size_t i = 0; i < devices_.size() && !TooMany(); ++i) {
    const std::string where = fmt::format("{} on {}", what, names_[i]);
    const auto got = devices_[i].Quantize(spec, x);
    if (!got.ok()) {
      Check(testing::AssertionFailure() << where << ": " << got.status());
      continue;
    }
    if (want.rejected || got->rejected) {
      if (want.rejected != got->rejected) {
        Check(testing::AssertionFailure() << where << ": rejected, or not");
      }
      continue;
    }
    if (want.saw_nan != got->saw_nan || want.saw_inf != got->saw_inf) {
      Check(testing::AssertionFailure() << where << ": saw NaN, Inf");
    }
    Same(where + " rowwise", want.rowwise, got->rowwise, spec.statistics);
    Same(where + " columnwise", want.columnwise, got->columnwise,
         spec.statistics);
    Check(BytesEq(where + " dbias", want.dbias, got->dbias));
    SameFloats(where + " plain amax", want.plain_amax, got->plain_amax);
    SameFloats(where + " history", want.history, got->history);
    SameFloats(where + " next scale", want.next_scale, got->next_scale);
  }
  if (want.rejected || !spec.dbias) return;
  if (spec.rowwise) Decode(what, spec, false, want.rowwise);
  if (spec.columnwise) Decode(what, spec, true, want.columnwise);
}

void FormatsComparison::Decode(const std::string& what,
                               const QuantizeSpec& made, bool columnwise,
                               const oracle::Copy& copy) {
  oracle::DequantizeSpec spec;
  spec.rows = made.rows;
  spec.cols = made.cols;
  spec.columnwise = columnwise;
  const bool rotated = columnwise ? made.rotate_columns : made.rotate_rows;
  // Mostly turned back, sometimes as it is.
  spec.rotated = rotated && turn_ % 3 == 0;
  spec.inverse = rotated && !spec.rotated;
  spec.mask = made.mask;
  spec.output = kElements[turn_ % 3];
  spec.format = made.format;
  spec.dimension = made.dimension;
  spec.splits = made.splits;
  spec.swizzled = made.swizzled;
  spec.compact = made.compact;
  spec.row_scaled = made.row_scaled;
  spec.scale_256 = made.scale_256;
  const Bytes want =
      oracle::CanonicalNaNs(spec.output, oracle::Dequantize(spec, copy));
  for (size_t i = 0; i < devices_.size() && !TooMany(); ++i) {
    const std::string where =
        fmt::format("{} {} decoded on {}", what,
                    columnwise ? "columnwise" : "rowwise", names_[i]);
    const auto got = devices_[i].Dequantize(spec, copy);
    if (!got.ok()) {
      Check(testing::AssertionFailure() << where << ": " << got.status());
      continue;
    }
    Check(BytesEq(where, want, oracle::CanonicalNaNs(spec.output, *got)));
  }
}

}  // namespace quantd
