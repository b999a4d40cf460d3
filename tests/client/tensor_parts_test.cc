// Tests of QuantizedTensor made from raw parts, and of its slices of rows,
// against the CPU backend's result for the same rows.
#include <cstring>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/device/devices.h"
#include "quantd/quantizer.h"
#include "tests/testing/device.h"
#include "tests/testing/matchers.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using testing::HasSubstr;

std::string ExpectedOf(const absl::Status& status) {
  const auto violation = GetFieldViolation(status);
  return violation ? violation->expected : status.ToString();
}

class TensorParts : public testing::Test {
 protected:
  void SetUp() override {
    auto backend = OpenBackend("cpu", {});
    ASSERT_THAT(backend, IsOk());
    backend_ = *std::move(backend);
  }

  // Quantizes on the CPU; the fixture owns the parts.
  std::vector<QuantizedTensor::Part> PartsOf(const TensorDesc& desc,
                                             const QuantizeOptions& options,
                                             const oracle::Bytes& input) {
    const auto plan = MakeQuantizePlan(desc, options);
    EXPECT_THAT(plan, IsOk());
    if (!plan.ok()) return {};
    auto reply = RunPlan(*backend_, *plan, {input});
    EXPECT_THAT(reply, IsOk());
    if (!reply.ok()) return {};
    std::vector<QuantizedTensor::Part> parts;
    for (const TensorSpec& spec : plan->outputs()) {
      kept_.push_back(std::make_unique<AlignedBytes>(spec.size));
      const auto to = kept_.back()->span();
      if (spec.size > 0) {
        std::memcpy(to.data(), reply->payload.data() + spec.offset, spec.size);
      }
      parts.push_back({spec.kind, to, spec.shape});
    }
    return parts;
  }

  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<AlignedBytes>> kept_;
};

struct Form {
  std::string name;
  QuantizeOptions options;
};

// Returns every format, with the options that change the positions of bytes.
std::vector<Form> Forms() {
  std::vector<Form> forms;
  for (const FormatSpec& f : kFormats) {
    for (const Usage usage :
         {Usage::kRowwise, Usage::kColumnwise, Usage::kBoth}) {
      QuantizeOptions o;
      o.format = f.format;
      o.usage = usage;
      if (f.scaling == Scaling::kTensor) o.fp8.scale = {3.5f};
      const auto add = [&](std::string_view what, const QuantizeOptions& used) {
        forms.push_back(
            {fmt::format("{} {} {}", f.name, Name(usage), what), used});
      };
      add("plain", o);
      if (f.options & kOptSwizzled) {
        QuantizeOptions tiles = o;
        tiles.form.scale_layout = Layout::kSwizzled;
        add("swizzled", tiles);
      }
      if (f.options & kOptCompact) {
        QuantizeOptions compact = o;
        compact.form.compact_scales = true;
        add("compact", compact);
      }
      if (f.options & kOptRowScaled) {
        QuantizeOptions rows = o;
        rows.form.row_scaled = true;
        add("row scaled", rows);
      }
      if (f.options & kOptRht) {
        QuantizeOptions rht = o;
        rht.rht.rowwise = HasRowwise(usage);
        rht.rht.columnwise = HasColumnwise(usage);
        rht.rht.dimension = 64;
        add("rotated", rht);
      }
      if (f.options & kOptStochastic) {
        QuantizeOptions random = o;
        random.rounding = Rounding::kStochastic;
        random.stochastic.seed = 11;
        random.shard.row_offset = 5;
        add("stochastic", random);
      }
    }
  }
  return forms;
}

TEST_F(TensorParts, SlicesEqualTheirRowsWithTheAmaxOfTheWhole) {
  constexpr int64_t kRows = 520;  // ends inside a block of every size but 8
  constexpr int64_t kCols = 192;
  const TensorDesc desc{DType::kBF16, {4, kRows / 4, kCols}};
  const oracle::Bytes input =
      MakeTensor(oracle::Element::kBF16, kRows * kCols, Flavor::kSpread, 1);
  struct Cut {
    int64_t first;
    int64_t count;
  };
  constexpr Cut kCuts[] = {{0, kRows}, {0, 128},   {128, 256}, {384, 136},
                           {256, 0},   {kRows, 0}, {128, 392}};
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name);
    const auto whole = QuantizedTensor::FromParts(
        desc, form.options, PartsOf(desc, form.options, input));
    ASSERT_THAT(whole, IsOk());
    for (const Cut& cut : kCuts) {
      SCOPED_TRACE(cut.first);
      const auto slice = whole->Rows(cut.first, cut.count);
      ASSERT_THAT(slice, IsOk());
      EXPECT_EQ(slice->shape(), (std::vector<int64_t>{cut.count, kCols}));
      QuantizeOptions o = slice->options();
      const FormatSpec& format = *FindFormat(o.format);
      if (format.scaling == Scaling::kNvfp4 || HasAmaxOfLines(format, o.form)) {
        const auto given = [](const std::optional<QuantizedTensor::Copy>& c) {
          if (!c) return std::vector<float>();
          return std::vector<float>(c->amax.begin(), c->amax.end());
        };
        o.rowwise_amax = given(slice->rowwise());
        o.columnwise_amax = given(slice->columnwise());
      }
      const auto begin = input.begin() + cut.first * kCols * 2;
      const auto parts = PartsOf({desc.dtype, {cut.count, kCols}}, o,
                                 {begin, begin + cut.count * kCols * 2});
      ASSERT_EQ(parts.size(), slice->parts().size());
      for (const QuantizedTensor::Part& want : parts) {
        const TensorSpec& got = *slice->part(want.kind);
        EXPECT_EQ(got.shape, want.shape);
        // With a given scale, the amax is that of all rows of the whole tensor.
        const bool measured = !o.fp8.scale.empty() &&
                              got.dtype == DType::kF32 &&
                              (want.kind == TensorKind::kRowwiseAmax ||
                               want.kind == TensorKind::kColumnwiseAmax);
        if (measured) continue;
        EXPECT_TRUE(BytesEq(std::string(Name(want.kind)), want.bytes,
                            slice->bytes(want.kind)));
      }
    }
  }
}

TEST_F(TensorParts, DoesNotCopyContiguousRows) {
  const TensorDesc desc{DType::kBF16, {256, 64}};
  const oracle::Bytes input =
      MakeTensor(oracle::Element::kBF16, 256 * 64, Flavor::kSpread, 1);
  QuantizeOptions o;
  o.format = Format::kMxfp8E4M3;
  o.usage = Usage::kBoth;
  const auto whole =
      QuantizedTensor::FromParts(desc, o, PartsOf(desc, o, input));
  ASSERT_THAT(whole, IsOk());
  const auto slice = whole->Rows(64, 96);
  ASSERT_THAT(slice, IsOk());
  EXPECT_EQ(slice->rowwise()->data.data(),
            whole->rowwise()->data.data() + 64 * 64);
  EXPECT_EQ(slice->columnwise()->data.data(),
            whole->columnwise()->data.data() + 64 * 64);
}

TEST_F(TensorParts, RefusesCutsInsideABlock) {
  const TensorDesc desc{DType::kBF16, {70, 64}};
  const oracle::Bytes input =
      MakeTensor(oracle::Element::kBF16, 70 * 64, Flavor::kSpread, 1);
  const auto cuts = [&](Format format, Usage usage, int rotation) {
    QuantizeOptions o;
    o.format = format;
    o.usage = usage;
    o.rht.columnwise = rotation > 0;
    if (rotation > 0) o.rht.dimension = rotation;
    const auto whole =
        QuantizedTensor::FromParts(desc, o, PartsOf(desc, o, input));
    EXPECT_THAT(whole, IsOk());
    if (!whole.ok()) return std::string("no tensor");
    const auto refused = whole->Rows(3, 7);
    if (refused.ok()) return std::string("any");
    EXPECT_EQ(FieldOf(refused.status()), "rows");
    return ExpectedOf(refused.status());
  };
  EXPECT_EQ(cuts(Format::kNvfp4, Usage::kRowwise, 0), "any");
  EXPECT_EQ(cuts(Format::kFp8E4M3, Usage::kBoth, 0), "any");
  EXPECT_EQ(cuts(Format::kNvfp4, Usage::kBoth, 0), "cuts at multiples of 16");
  EXPECT_EQ(cuts(Format::kNvfp4, Usage::kBoth, 32), "cuts at multiples of 32");
  EXPECT_EQ(cuts(Format::kNvfp4Square, Usage::kRowwise, 0),
            "cuts at multiples of 16");
  EXPECT_EQ(cuts(Format::kMxfp4, Usage::kColumnwise, 0),
            "cuts at multiples of 32");
  EXPECT_EQ(cuts(Format::kFp8BlockE4M3, Usage::kColumnwise, 0),
            "cuts at multiples of 128");
  QuantizeOptions o;
  o.format = Format::kNvfp4;
  const auto whole =
      QuantizedTensor::FromParts(desc, o, PartsOf(desc, o, input));
  ASSERT_THAT(whole, IsOk());
  for (const auto& [first, count] : std::vector<std::pair<int64_t, int64_t>>{
           {-1, 2}, {0, -1}, {0, 71}, {71, 0}, {1, INT64_MAX}}) {
    EXPECT_EQ(ExpectedOf(whole->Rows(first, count).status()),
              "a range inside 0 to 70");
  }
  o.splits = {30, 40};
  const auto groups =
      QuantizedTensor::FromParts(desc, o, PartsOf(desc, o, input));
  ASSERT_THAT(groups, IsOk());
  EXPECT_EQ(FieldOf(groups->Rows(0, 30).status()), "splits");
  EXPECT_THAT(groups->group(1)->Rows(3, 20), IsOk());
}

TEST_F(TensorParts, ChecksParts) {
  const TensorDesc desc{DType::kBF16, {32, 64}};
  const oracle::Bytes input =
      MakeTensor(oracle::Element::kBF16, 32 * 64, Flavor::kSpread, 1);
  QuantizeOptions o;
  o.format = Format::kNvfp4;
  o.usage = Usage::kBoth;
  const auto good = PartsOf(desc, o, input);
  const auto status = [&](auto change, const QuantizeOptions& options) {
    auto parts = good;
    change(&parts);
    return QuantizedTensor::FromParts(desc, options, parts).status();
  };
  using Parts = std::vector<QuantizedTensor::Part>*;
  EXPECT_EQ(FieldOf(status([](Parts p) { p->pop_back(); }, o)), "parts");
  EXPECT_THAT(std::string(status([](Parts p) { p->pop_back(); }, o).message()),
              HasSubstr("columnwise_amax"));
  EXPECT_EQ(FieldOf(status([](Parts p) { p->push_back(p->front()); }, o)),
            "parts[6]");
  EXPECT_EQ(
      FieldOf(status([](Parts p) { (*p)[1].kind = TensorKind::kDbias; }, o)),
      "parts[1]");
  EXPECT_EQ(
      FieldOf(status(
          [](Parts p) { (*p)[1].kind = static_cast<TensorKind>(99); }, o)),
      "parts[1]");
  EXPECT_EQ(FieldOf(status([](Parts p) { (*p)[0].bytes.remove_suffix(1); }, o)),
            "parts[0].bytes");
  // These parts have the right size, but belong to another matrix.
  EXPECT_EQ(FieldOf(status(
                [](Parts p) {
                  (*p)[0].shape = {64, 16};
                },
                o)),
            "parts[0].shape");
  EXPECT_THAT(status([](Parts p) { (*p)[0].shape.clear(); }, o), IsOk());
  const std::vector<float> numbers = {-1, 0, 0};
  const auto floats = [&](size_t skip) {
    return absl::Span<const std::byte>(
        reinterpret_cast<const std::byte*>(numbers.data()) + skip, 4);
  };
  EXPECT_EQ(ExpectedOf(status([&](Parts p) { (*p)[2].bytes = floats(0); }, o)),
            "amaxes >= 0");
  EXPECT_EQ(ExpectedOf(status([&](Parts p) { (*p)[2].bytes = floats(5); }, o)),
            "memory aligned for f32");
  EXPECT_THAT(status([&](Parts p) { (*p)[2].bytes = floats(4); }, o), IsOk());
  QuantizeOptions wrong = o;
  wrong.format = Format::kUnspecified;
  EXPECT_EQ(FieldOf(status([](Parts) {}, wrong)), "format");

  QuantizeOptions fp8;
  fp8.format = Format::kFp8E4M3;
  auto parts = PartsOf(desc, fp8, input);
  EXPECT_THAT(QuantizedTensor::FromParts(desc, fp8, parts), IsOk());
  parts[1].bytes = floats(4);
  EXPECT_EQ(ExpectedOf(QuantizedTensor::FromParts(desc, fp8, parts).status()),
            "scales > 0");
}

TEST_F(TensorParts, CopiesPartsWithoutAnOwner) {
  const TensorDesc desc{DType::kBF16, {32, 64}};
  oracle::Bytes input =
      MakeTensor(oracle::Element::kBF16, 32 * 64, Flavor::kSpread, 1);
  QuantizeOptions o;
  o.format = Format::kMxfp4;
  const auto parts = PartsOf(desc, o, input);
  const auto copied = QuantizedTensor::FromParts(desc, o, parts);
  const auto owner = std::make_shared<int>();
  const auto shared = QuantizedTensor::FromParts(desc, o, parts, owner);
  ASSERT_THAT(copied, IsOk());
  ASSERT_THAT(shared, IsOk());
  EXPECT_NE(copied->rowwise()->data.data(), parts[0].bytes.data());
  EXPECT_EQ(shared->rowwise()->data.data(), parts[0].bytes.data());
  EXPECT_EQ(owner.use_count(), 2);
  EXPECT_TRUE(BytesEq("codes", parts[0].bytes, copied->rowwise()->data));
  EXPECT_TRUE(BytesEq("scales", parts[1].bytes, copied->rowwise()->scale));
}

}  // namespace
}  // namespace quantd
