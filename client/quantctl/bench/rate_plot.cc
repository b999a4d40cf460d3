#include "client/quantctl/bench/rate_plot.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>

#include "client/quantctl/report.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

constexpr double kLeft = 60;
constexpr double kTop = 40;
constexpr double kWidth = 480;
constexpr double kHeight = 260;
constexpr double kLine = 18;  // of text
// They differ in lightness, too.
constexpr const char* kColours[] = {"#1f6f9f", "#c2571a", "#4f8a3c",
                                    "#8a4f9e", "#5d6670", "#a8862a"};

// The next of 1, 2, 5, 10, 20, ... of its magnitude.
double RoundedUp(double value) {
  const double unit = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (value <= step * unit) return step * unit;
  }
  return 10 * unit;
}

template <typename T>
size_t PlaceOf(const T& value, std::vector<T>* values) {
  const auto at = std::find(values->begin(), values->end(), value);
  const auto place = static_cast<size_t>(at - values->begin());
  if (at == values->end()) values->push_back(value);
  return place;
}

class Plot {
 public:
  explicit Plot(const std::vector<Cell>& cells) : cells_(cells) {
    double most = 0;
    for (const Cell& c : cells) {
      PlaceOf(c.bytes, &sizes_);
      PlaceOf(LoadOf(c), &loads_);
      most = std::max(most, c.input_gb_per_s());
      if (const EchoRate* echo = c.best_echo()) {
        most = std::max(most, Median(echo->gb_per_s));
        echoes_ = true;
      }
    }
    std::sort(sizes_.begin(), sizes_.end());
    top_ = most > 0 ? RoundedUp(most) : 1;
  }

  std::string Draw(std::string_view title) {
    const double legend =
        kLine * static_cast<double>(loads_.size() * (echoes_ ? 2 : 1));
    Put("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
        "width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" "
        "font-size=\"12\" fill=\"#1c2126\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        "<text x=\"{2}\" y=\"24\" font-size=\"14\">{3}</text>\n",
        kLeft + kWidth + 20, kTop + kHeight + 40 + legend, kLeft, title);
    Axes();
    for (size_t l = 0; l < loads_.size(); ++l) {
      Series(l, false);
      if (echoes_) Series(l, true);
    }
    return std::move(svg_) + "</svg>\n";
  }

 private:
  using Shape = std::tuple<std::string, int, double>;  // amax, callers, rate

  static Shape LoadOf(const Cell& c) {
    return {c.amax, c.load.callers, c.load.rate};
  }
  double X(uint64_t bytes) {
    const auto place = static_cast<double>(PlaceOf(bytes, &sizes_));
    return kLeft + kWidth * (place + 0.5) / static_cast<double>(sizes_.size());
  }
  double Y(double gb_per_s) const {
    return kTop + kHeight * (1 - gb_per_s / top_);
  }

  void Axes() {
    constexpr int kTicks = 5;
    for (int i = 0; i <= kTicks; ++i) {
      const double value = top_ * i / kTicks;
      Put("<path d=\"M{:.1f} {:.1f}h{:.1f}\" stroke=\"#d9dce0\"/>"
          "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.3g}</text>\n",
          kLeft, Y(value), kWidth, kLeft - 6, Y(value) + 4, value);
    }
    Put("<text x=\"14\" y=\"{0:.1f}\" transform=\"rotate(-90 14 {0:.1f})\" "
        "text-anchor=\"middle\">GB/s of input</text>\n",
        kTop + kHeight / 2);
    for (const uint64_t bytes : sizes_) {
      Put("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
          X(bytes), kTop + kHeight + kLine, BytesText(bytes));
    }
  }

  void Series(size_t load, bool echo) {
    std::vector<std::pair<double, double>> points;
    for (const Cell& c : cells_) {
      if (LoadOf(c) != loads_[load]) continue;
      const EchoRate* const best = c.best_echo();
      if (echo && best == nullptr) continue;
      points.emplace_back(
          X(c.bytes), Y(echo ? Median(best->gb_per_s) : c.input_gb_per_s()));
    }
    std::sort(points.begin(), points.end());
    const char* const colour = kColours[load % std::size(kColours)];
    const char* const dashes = echo ? " stroke-dasharray=\"5 4\"" : "";
    std::string path;
    for (const auto& [x, y] : points) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, y);
    }
    const double y = kTop + kHeight + 30 + kLine * static_cast<double>(rows_++);
    Put("<path d=\"{}M{:.1f} {:.1f}h28\" fill=\"none\" stroke=\"{}\" "
        "stroke-width=\"2\"{}/>\n",
        path, kLeft, y + 8, colour, dashes);
    for (const auto& [px, py] : points) {
      Put("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", px,
          py, echo ? "#ffffff\" stroke=\"" + std::string(colour) : colour);
    }
    const auto& [amax, callers, rate] = loads_[load];
    Put("<text x=\"{:.1f}\" y=\"{:.1f}\">{}{}, {} caller{}{}</text>\n",
        kLeft + 36, y + 12, echo ? "echo" : "quantize",
        amax.empty() ? "" : ", amax " + amax, callers, callers == 1 ? "" : "s",
        rate > 0 ? fmt::format(", {:g} calls/s due", rate) : "");
  }

  template <typename... Args>
  void Put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(svg_), format,
                   std::forward<Args>(args)...);
  }

  const std::vector<Cell>& cells_;
  std::vector<uint64_t> sizes_;
  std::vector<Shape> loads_;
  double top_ = 1;
  bool echoes_ = false;
  size_t rows_ = 0;
  std::string svg_;
};

}  // namespace

std::string RatePlot(std::string_view title, const std::vector<Cell>& cells) {
  return Plot(cells).Draw(title);
}

}  // namespace quantd::quantctl
