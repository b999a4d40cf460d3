#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/oracle/lines.h"
#include "tests/oracle/oracle.h"

namespace quantd::oracle {
namespace {

// The number of rows per partial sum of dbias.
constexpr int64_t kChunk = 128;

void Append(Bytes& to, const Bytes& from) {
  to.insert(to.end(), from.begin(), from.end());
}
void Append(std::vector<float>& to, const std::vector<float>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Encodes one copy of one matrix.
class Encoder {
 public:
  Encoder(const QuantizeSpec& spec, const Matrix& m, bool columnwise)
      : spec_(spec),
        m_(m),
        columnwise_(columnwise),
        rotated_(columnwise ? spec.rotate_columns : spec.rotate_rows),
        library_(spec.profile, spec.format, spec.element, spec.rule),
        code_(CodeOf(spec.format)),
        range_(spec.scale_256 ? kRange256 : kRange448) {
    const int dimension = rotated_ ? spec.dimension : 0;
    layout_ = MakeLayout({spec.format, m.rows, m.cols, columnwise, dimension,
                          spec.swizzled, spec.compact,
                          ScaleSizeOf(spec.profile, spec.format, spec.element),
                          HighFirst(spec.profile)});
    lines_ = MakeLines(m, columnwise, layout_.padded, dimension, spec.mask);
  }

  // `given` holds all given maxima of the copy, or nothing. They are multiplied
  // by `factor`.
  void Run(const std::vector<float>& given, float factor) {
    FindAmax(given, factor);
    out_.data.assign(layout_.DataBytes(), 0);
    out_.scale.assign(layout_.ScaleBytes(), 0);
    if (HasGlobal(spec_.profile, spec_.format)) {
      for (float a : out_.amax) {
        out_.global.push_back(
            std::isnan(a) ? kNaN : GlobalOf(spec_.profile, spec_.element, a));
      }
    }
    if (IsTensor(spec_.format)) {
      tensor_scale_ = ScaleOfMaximum(out_.amax[0]);
      PutScale(0, 0, tensor_scale_.stored);
    }
    if (IsChannel(spec_.format) && !layout_.empty()) {
      for (int64_t line = 0; line < layout_.lines; ++line) {
        PutScale(line, 0, ScaleOfMaximum(out_.amax[line]).stored);
      }
    }
    if (layout_.empty()) return;
    const int64_t side = IsSquare(spec_.format) ? layout_.block : 1;
    std::vector<BlockScale> scales(layout_.blocks);
    for (int64_t line = 0; line < layout_.lines; ++line) {
      for (int64_t b = 0; b < layout_.blocks; ++b) {
        if (line % side == 0) scales[b] = ScaleOf(line, b, side);
        PutScale(line, b, scales[b].stored);
        EncodeLine(line, b, scales[b]);
      }
    }
  }

  const Copy& out() const { return out_; }
  const Tally& tally() const { return tally_; }

 private:
  void FindAmax(const std::vector<float>& given, float factor) {
    if (!HasAmax(spec_.format)) return;
    // With a given scale the amax is only an output.
    const bool use = !given.empty() && spec_.scale.empty();
    if (OwnAmaxes()) {
      for (int64_t line = 0; line < layout_.lines; ++line) {
        out_.amax.push_back(use ? given[AmaxIndex(m_, columnwise_, true, line)]
                                : Amax(lines_[line], spec_.policy));
      }
    } else if (use) {
      out_.amax = {given.size() == 1 ? given[0] : given[m_.group]};
      if (factor != 1) out_.amax = {Mul(out_.amax[0], factor)};
    } else if (rotated_ && spec_.estimation.value_or(0) != 0) {
      out_.amax = {Mul(Amax(m_.x, spec_.policy), *spec_.estimation)};
    } else {
      std::vector<float> all;
      for (const auto& line : lines_) Append(all, line);
      out_.amax = {Amax(all, spec_.policy)};
    }
  }

  bool OwnAmaxes() const { return spec_.row_scaled || IsChannel(spec_.format); }
  bool Other() const { return spec_.profile != Profile::kTe; }

  // The scale of a tensor or line. A tensor's scale is stored even if the
  // tensor has no elements.
  BlockScale ScaleOfMaximum(float amax) const {
    if (Other()) return {library_.Scale(amax, amax), 0};
    float scale;
    if (spec_.scale.empty()) {
      scale = CurrentScale(amax, code_, spec_.epsilon,
                           spec_.power_of_two.value_or(false));
    } else {
      scale = spec_.scale.size() == 1 ? spec_.scale[0] : spec_.scale[m_.group];
    }
    return WithInverse(scale);
  }

  // Converts fp32 bits to the type of scales if that is narrower.
  void PutScale(int64_t line, int64_t b, uint32_t stored) {
    if (layout_.scale_size == 2) {
      stored = ElementBits(spec_.element, std::bit_cast<float>(stored));
    }
    layout_.PutScale(out_.scale, line, b, stored);
  }

  static BlockScale WithInverse(float scale) {
    const float inverse = Div(1.0f, scale);
    return {std::bit_cast<uint32_t>(std::isnan(inverse) ? kNaN : inverse),
            scale};
  }

  float AmaxOf(int64_t line) const {
    if (out_.amax.empty()) return 0;
    return out_.amax[OwnAmaxes() ? line : 0];
  }

  // The values of a block, or of a square, row by row of the matrix.
  std::vector<float> Gather(int64_t line, int64_t b, int64_t side) const {
    std::vector<float> v(side * layout_.block);
    for (int64_t l = 0; l < side && line + l < layout_.lines; ++l) {
      for (int64_t i = 0; i < layout_.block; ++i) {
        const bool transposed = side > 1 && columnwise_;
        v[transposed ? i * side + l : l * layout_.block + i] =
            lines_[line + l][b * layout_.block + i];
      }
    }
    return v;
  }

  BlockScale ScaleOf(int64_t line, int64_t b, int64_t side) const {
    if (IsTensor(spec_.format)) return tensor_scale_;
    if (IsChannel(spec_.format)) return ScaleOfMaximum(AmaxOf(line));
    const std::vector<float> v = Gather(line, b, side);
    const float largest = Amax(v, spec_.policy);
    if (Other()) return {library_.Scale(largest, AmaxOf(line)), 0};
    if (IsNvfp4(spec_.format)) {
      const float a = AmaxOf(line);
      if (spec_.scale_search) return SearchScale(v, a, spec_.policy);
      if (spec_.four_over_six == FourOverSix::kOff) {
        return Nvfp4Scale(largest, EncodeScale(a, range_));
      }
      return TryFourAndSix(v, a, range_, spec_.four_over_six, spec_.fast_error,
                           spec_.policy)
          .picked();
    }
    if (IsMx(spec_.format)) {
      const uint8_t scale = MxScale(largest, code_, spec_.rule);
      return {scale, MxMultiplier(scale)};
    }
    if (std::isnan(largest)) return WithInverse(kNaN);
    return WithInverse(CurrentScale(largest, code_, spec_.epsilon,
                                    spec_.power_of_two.value_or(true),
                                    LargestFinite(spec_.element)));
  }

  void EncodeLine(int64_t line, int64_t b, const BlockScale& scale) {
    const float factor =
        Other() ? FactorUnder(spec_.profile, spec_.format, Element::kF32,
                              scale.stored,
                              out_.global.empty() ? 0 : out_.global[0])
                : FactorOf(spec_.format, scale.stored, AmaxOf(line), range_);
    // Codes of padding stay zero, except in padding that a rotation fills.
    const int64_t end = std::min((b + 1) * layout_.block,
                                 rotated_ ? layout_.padded : layout_.length);
    std::vector<float> before;
    std::vector<float> scaled;
    std::vector<float> after;
    for (int64_t at = b * layout_.block; at < end; ++at) {
      const float v = lines_[line][at];
      const float y = Other() ? library_.Scaled(v, scale.stored, AmaxOf(line))
                              : Mul(v, scale.multiplier);
      const uint8_t code =
          Other()            ? library_.CodeUnder(v, scale.stored, AmaxOf(line))
          : spec_.stochastic ? StochasticE2m1Code(y, Random(line, at))
                             : CodeOf(code_, y);
      layout_.PutCode(out_.data, line, at, code);
      if (!spec_.statistics) continue;
      before.push_back(v);
      scaled.push_back(y);
      after.push_back(Mul(CodeValue(code_, code), factor));
      if ((at + 1) % kRun != 0 && at + 1 != end) continue;
      tally_.Add(code_, before, scaled, after);
      before.clear();
      scaled.clear();
      after.clear();
    }
  }

  uint8_t Random(int64_t line, int64_t at) const {
    const int64_t columns = spec_.total_columns
                                ? spec_.total_columns
                                : spec_.column_offset + spec_.cols;
    const int64_t row = m_.first_row + (columnwise_ ? at : line);
    const int64_t column = columnwise_ ? line : at;
    return RandomByte({spec_.seed, spec_.seed_offset, columnwise_, columns},
                      spec_.row_offset + row, spec_.column_offset + column);
  }

  const QuantizeSpec& spec_;
  const Matrix& m_;
  const bool columnwise_;
  const bool rotated_;
  const Library library_;
  const Code code_;
  const float range_;
  Layout layout_;
  std::vector<std::vector<float>> lines_;
  BlockScale tensor_scale_;
  Copy out_;
  Tally tally_;
};

Copy EncodeCopy(const QuantizeSpec& spec, const std::vector<Matrix>& groups,
                bool columnwise, const std::vector<float>& given,
                float factor) {
  Copy out;
  Tally tally;
  for (const Matrix& m : groups) {
    Encoder encoder(spec, m, columnwise);
    encoder.Run(given, factor);
    out.data_offsets.push_back(out.data.size());
    out.scale_offsets.push_back(out.scale.size());
    Append(out.data, encoder.out().data);
    Append(out.scale, encoder.out().scale);
    Append(out.amax, encoder.out().amax);
    Append(out.global, encoder.out().global);
    tally.Add(encoder.tally());
  }
  out.data_offsets.push_back(out.data.size());
  out.scale_offsets.push_back(out.scale.size());
  if (spec.splits.empty()) {
    out.data_offsets.clear();
    out.scale_offsets.clear();
  }
  if (spec.statistics) out.stats = tally.Result();
  return out;
}

Bytes SumRows(const Matrix& m, Element type) {
  std::vector<float> sums(m.cols);
  for (int64_t c = 0; c < m.cols; ++c) {
    for (int64_t start = 0; start < m.rows; start += kChunk) {
      float sum = 0;
      for (int64_t r = start; r < std::min(start + kChunk, m.rows); ++r) {
        sum = Add(sum, m.x[r * m.cols + c]);
      }
      sums[c] = Add(sums[c], sum);
    }
  }
  return FromValues(type, sums);
}

}  // namespace

Quantized Quantize(const QuantizeSpec& spec, const Bytes& input) {
  std::vector<float> x = Values(spec.element, input);
  x.resize(RowsIn(spec.rows, spec.splits) * spec.cols);
  Quantized out;
  out.saw_nan = AnyNaN(x);
  out.saw_inf = AnyInf(x);
  if (spec.policy == Policy::kReject && (out.saw_nan || out.saw_inf)) {
    out.rejected = true;
    return out;
  }
  const std::vector<Matrix> groups =
      Groups(x, spec.rows, spec.cols, spec.splits);
  const bool rows_turn = spec.rowwise && spec.rotate_rows;
  const bool columns_turn = spec.columnwise && spec.rotate_columns;
  const float estimate = spec.estimation.value_or(0);
  const auto encode = [&](bool columnwise, const std::vector<float>& own,
                          bool turned, const std::vector<float>& others,
                          bool other_turned) {
    if (!own.empty() || spec.row_scaled || IsChannel(spec.format) ||
        other_turned) {
      return EncodeCopy(spec, groups, columnwise, own, 1);
    }
    // Here the amax of the other direction is of values that are not rotated.
    if (!turned) return EncodeCopy(spec, groups, columnwise, others, 1);
    if (estimate != 0) {
      return EncodeCopy(spec, groups, columnwise, others, estimate);
    }
    return EncodeCopy(spec, groups, columnwise, {}, 1);
  };
  if (spec.rowwise) {
    out.rowwise =
        encode(false, spec.row_amax, rows_turn, spec.column_amax, columns_turn);
  }
  if (spec.columnwise) {
    out.columnwise =
        encode(true, spec.column_amax, columns_turn, spec.row_amax, rows_turn);
  }
  for (const Matrix& m : groups) {
    if (spec.dbias) Append(out.dbias, SumRows(m, *spec.dbias));
    if (spec.want_amax) out.plain_amax.push_back(Amax(m.x, spec.policy));
  }
  // The values of one group are adjacent.
  for (const Matrix& m : groups) {
    if (!spec.history) break;
    const size_t length = spec.history->values.size() / groups.size();
    const auto first =
        spec.history->values.begin() + static_cast<ptrdiff_t>(m.group * length);
    History history = *spec.history;
    history.values.assign(first, first + static_cast<ptrdiff_t>(length));
    history.values[0] = Amax(m.x, spec.policy);
    out.next_scale.push_back(
        NextScale(history, CodeOf(spec.format), spec.scale.at(m.group)));
    Append(out.history, Roll(history.values));
  }
  return out;
}

}  // namespace quantd::oracle
