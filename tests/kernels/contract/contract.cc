#include "tests/kernels/contract/contract.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <tuple>

#include "fmt/format.h"
#include "kernels/device/devices.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;

using oracle::QuantizeSpec;

size_t Stride() {
  const char* text = std::getenv("QUANTD_CONTRACT_STRIDE");
  return text ? std::max<size_t>(1, std::strtoul(text, nullptr, 10)) : 1;
}

bool HasNan(const std::vector<float>& x) {
  return std::any_of(x.begin(), x.end(), [](float v) { return std::isnan(v); });
}
bool HasInf(const std::vector<float>& x) {
  return std::any_of(x.begin(), x.end(), [](float v) { return std::isinf(v); });
}

Bytes BytesOf(const std::vector<float>& v) {
  const auto* p = reinterpret_cast<const uint8_t*>(v.data());
  return Bytes(p, p + v.size() * sizeof(float));
}

bool Same(const oracle::Statistics& a, const oracle::Statistics& b) {
  return a.elements == b.elements && a.clipped == b.clipped &&
         a.flushed == b.flushed && a.max_error == b.max_error &&
         a.signal == b.signal && a.noise == b.noise &&
         (a.sqnr_db == b.sqnr_db ||
          (std::isnan(a.sqnr_db) && std::isnan(b.sqnr_db)));
}

}  // namespace

const Bytes& SuiteTensor(Element e, int64_t count, Flavor f) {
  static auto& tensors =
      *new std::map<std::tuple<Element, int64_t, Flavor>, Bytes>;
  const auto [at, fresh] = tensors.try_emplace({e, count, f});
  if (fresh) {
    at->second = MakeTensor(e, count, f, Mix(count) + static_cast<int>(f));
  }
  return at->second;
}

uint16_t SuiteMask(size_t turn) {
  constexpr uint16_t kMasks[] = {0xD7E8, 0x0000, 0xFFFF, 0x0001,
                                 0x8000, 0x5A3C, 0x7FFE};
  return kMasks[turn % std::size(kMasks)];
}

size_t Draw(size_t turn, uint64_t salt, size_t options) {
  return Mix(Mix(turn) + salt) % options;
}

std::vector<Flavor> FlavorsFor(const Size& size, size_t turn) {
  if (size.rows * size.cols <= 3000) {
    return {std::begin(kFlavors), std::end(kFlavors)};
  }
  return {kFlavors[turn % std::size(kFlavors)]};
}

std::vector<int64_t> SplitsFor(int64_t rows, size_t turn) {
  std::vector<int64_t> splits = {0};
  int64_t left = rows;
  for (size_t i = 0; left > 0; ++i) {
    const uint64_t random = Mix(turn * 131 + i);
    const int64_t most = i % 3 == 0 ? 150 : 40;
    const int64_t n = std::min<int64_t>(left, random % most);
    splits.push_back(n);
    left -= n;
  }
  splits.push_back(0);
  return splits;
}

void ContractTest::SetUp() {
  for (const Target& target : Targets()) {
    if (target.device == "cuda") continue;  // placeholder for a missing device
    BackendOptions options;
    options.threads = 2;
    auto device = Device::Open(target, options);
    ASSERT_THAT(device, IsOk());
    names_.push_back(ToString(target));
    devices_.push_back(*std::move(device));
  }
}

void ContractTest::TearDown() {
  if (combinations_ == 0) return;
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::cout << fmt::format(
      "[ COMPARED ] {}.{} on {} devices: {} combinations, {} elements each\n",
      test->test_suite_name(), test->name(), devices_.size(), combinations_,
      elements_);
}

bool ContractTest::Chosen() { return run_++ % Stride() == 0; }

void ContractTest::OnEveryDevice(
    const std::string& what,
    const std::function<void(Device&, const std::string& where)>& fn) {
  for (size_t i = 0; i < devices_.size() && !TooMany(); ++i) {
    fn(devices_[i], fmt::format("{} on {}", what, names_[i]));
  }
}

void ContractTest::Check(const testing::AssertionResult& result) {
  if (!result) ++failures_;
  EXPECT_TRUE(result);
}

void ContractTest::Fail(const std::string& where, std::string_view how) {
  Check(testing::AssertionFailure() << where << ": " << how);
}

void ContractTest::Same(const std::string& where,
                        const std::vector<float>& want,
                        const std::vector<float>& got) {
  Check(BytesEq(where, BytesOf(want), BytesOf(got)));
}

void ContractTest::Same(const std::string& where, const oracle::Copy& want,
                        const oracle::Copy& got, bool statistics) {
  Check(BytesEq(where + " codes", want.data, got.data));
  Check(BytesEq(where + " scales", want.scale, got.scale));
  Same(where + " amax", want.amax, got.amax);
  Same(where + " global", want.global, got.global);
  if (want.data_offsets != got.data_offsets ||
      want.scale_offsets != got.scale_offsets) {
    Fail(where, "group offsets differ");
  }
  const oracle::Statistics& a = want.stats;
  const oracle::Statistics& b = got.stats;
  if (!statistics || quantd::Same(a, b)) return;
  Fail(where,
       fmt::format("statistics: expected {} {} {} {} {} {}, got {} {} {} {} "
                   "{} {}",
                   a.elements, a.clipped, a.flushed, a.max_error, a.signal,
                   a.noise, b.elements, b.clipped, b.flushed, b.max_error,
                   b.signal, b.noise));
}

void ContractTest::SameSeen(const std::string& where, bool nan, bool inf,
                            bool got_nan, bool got_inf) {
  if (nan == got_nan && inf == got_inf) return;
  Fail(where, fmt::format("saw NaN, Inf: expected {}, {}, got {}, {}", nan, inf,
                          got_nan, got_inf));
}

oracle::Quantized ContractTest::Quantize(const std::string& what,
                                         const QuantizeSpec& spec,
                                         const Bytes& x) {
  const oracle::Quantized want = oracle::Quantize(spec, x);
  elements_ += spec.rows * spec.cols;
  OnEveryDevice(what, [&](Device& device, const std::string& where) {
    const auto got = device.Quantize(spec, x);
    if (!got.ok()) return Fail(where, got.status().ToString());
    if (want.rejected != got->rejected) {
      return Fail(where, fmt::format("rejected: expected {}, got {}",
                                     want.rejected, got->rejected));
    }
    if (want.rejected) return;
    SameSeen(where, want.saw_nan, want.saw_inf, got->saw_nan, got->saw_inf);
    Same(where + " rowwise", want.rowwise, got->rowwise, spec.statistics);
    Same(where + " columnwise", want.columnwise, got->columnwise,
         spec.statistics);
    Check(BytesEq(where + " dbias", want.dbias, got->dbias));
    Same(where + " plain amax", want.plain_amax, got->plain_amax);
    Same(where + " history", want.history, got->history);
    Same(where + " next scale", want.next_scale, got->next_scale);
  });
  return want;
}

void ContractTest::Dequantize(const std::string& what,
                              const oracle::DequantizeSpec& spec,
                              const oracle::Copy& copy) {
  const Bytes want =
      oracle::CanonicalNaNs(spec.output, oracle::Dequantize(spec, copy));
  elements_ +=
      static_cast<int64_t>(want.size()) / oracle::ElementSize(spec.output);
  OnEveryDevice(what, [&](Device& device, const std::string& where) {
    const auto got = device.Dequantize(spec, copy);
    if (!got.ok()) return Fail(where, got.status().ToString());
    Check(BytesEq(where, want, oracle::CanonicalNaNs(spec.output, *got)));
  });
}

void ContractTest::RhtAmax(const std::string& what,
                           const oracle::AmaxSpec& spec, const AmaxFlags& flags,
                           const Bytes& x) {
  const oracle::Amaxes want = oracle::RhtAmax(spec, x);
  const std::vector<float> values = oracle::Values(spec.element, x);
  elements_ += spec.rows * spec.cols;
  OnEveryDevice(what, [&](Device& device, const std::string& where) {
    const auto got = device.RhtAmax(spec, flags, x);
    if (!got.ok()) return Fail(where, got.status().ToString());
    if (want.rejected != got->rejected) {
      return Fail(where, fmt::format("rejected: expected {}, got {}",
                                     want.rejected, got->rejected));
    }
    if (want.rejected) return;
    SameSeen(where, HasNan(values), HasInf(values), device.report().saw_nan,
             device.report().saw_inf);
    if (flags.row) Same(where + " row", want.row, got->row);
    if (flags.row_rotated) {
      Same(where + " row, rotated", want.row_rotated, got->row_rotated);
    }
    if (flags.column) Same(where + " column", want.column, got->column);
    if (flags.column_rotated) {
      Same(where + " column, rotated", want.column_rotated,
           got->column_rotated);
    }
  });
}

void ContractTest::ApplyRht(const std::string& what, Element e,
                            std::optional<Element> output, const Size& size,
                            const oracle::Mask& mask, bool inverse,
                            const Bytes& x, int dimension) {
  const Element out = output.value_or(e);
  const Bytes want = oracle::CanonicalNaNs(
      out, oracle::ApplyRht(e, out, mask, inverse, x, dimension));
  const std::vector<float> values = oracle::Values(e, x);
  elements_ += size.rows * size.cols;
  OnEveryDevice(what, [&](Device& device, const std::string& where) {
    const auto got = device.ApplyRht(e, output, size.rows, size.cols, mask,
                                     inverse, x, dimension);
    if (!got.ok()) return Fail(where, got.status().ToString());
    Check(BytesEq(where, want, oracle::CanonicalNaNs(out, *got)));
    SameSeen(where, HasNan(values), HasInf(values), device.report().saw_nan,
             device.report().saw_inf);
  });
}

}  // namespace quantd
