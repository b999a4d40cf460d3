#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "client/checkpoint/report/report.h"
#include "client/checkpoint/report/style.h"
#include "client/files/shown_name.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// Limits of the page. Further rows are only in report.json.
constexpr size_t kMostRows = 1500;
constexpr size_t kMostGroups = 400;
constexpr size_t kSizeColours = 5;

// Escapes text for HTML, because names come from untrusted files.
std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // Replaces other control characters, which HTML does not allow.
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    }
  }
  return out;
}

// Escapes a name and allows line breaks at its dots.
std::string NameText(std::string_view name) {
  std::string out;
  for (const char c : Escaped(name)) {
    out += c;
    if (c == '.') out += "<wbr>";
  }
  return out;
}

std::string Db(double db) {
  return std::isfinite(db) ? fmt::format("{:.2f}", db) : "none";
}

// Limits between shades, in dB above or below the format's usual SQNR, which
// has the middle shade.
constexpr double kSteps[kShades / 2] = {1, 3, 6};
int ShadeOf(const HeatCell& cell) {
  const double over = cell.sqnr_db - cell.usual_db;
  if (cell.below) return 0;
  int steps = 0;
  while (steps < kShades / 2 && !(std::abs(over) < kSteps[steps])) ++steps;
  return kShades / 2 + (over > 0 ? steps : -steps);
}

class Page {
 public:
  explicit Page(const Report& report) : r_(report) {}

  std::string Make() {
    Head();
    Verdict();
    Tiles();
    Warnings();
    Heat();
    Worst();
    Histograms();
    Sizes();
    Groups();
    AllTensors();
    Put("<footer>Written by quantctl {}. The numbers are in report.json.",
        Escaped(r_.version));
    Put("</footer>\n</main></body></html>\n");
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void Put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format,
                   std::forward<Args>(args)...);
  }

  void Head() {
    Put("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
        "'none'; style-src 'unsafe-inline'; img-src data:\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, "
        "initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n");
    Put("<title>{} - quantization report</title>\n<style>{}</style>\n",
        Escaped(r_.title), kStyle);
    Put("</head><body><main>\n<header><h1>{}</h1>\n", Escaped(r_.title));
    Put("<p class=\"soft path\">{} against {}{}</p></header>\n", Escaped(r_.b),
        Escaped(r_.a),
        r_.profile.empty()
            ? ""
            : fmt::format(", with profile {}", Escaped(r_.profile)));
  }

  // The summary of the page.
  void Verdict() {
    const bool good = r_.summary.below == 0;
    Put("<section id=\"verdict\" class=\"verdict{}\"><strong>{}</strong>\n",
        good ? "" : " wrong",
        r_.changed.empty() ? "No tensor changed"
        : good             ? "As close to the original as its formats allow"
               : "Farther from the original than its formats explain");
    Put("<p>Compared with the original, {}.", Escaped(r_.verdict));
    if (r_.summary.usual_db > 0) {
      Put(" The mean SQNR is {} dB; {:.1f} dB is usual for these formats.",
          Db(r_.summary.mean_db), r_.summary.usual_db);
    }
    if (!r_.warnings.empty()) {
      Put(" <a href=\"#warnings\">{} worth a look</a>.",
          r_.warnings.size() == 1
              ? "One thing is"
              : fmt::format("{} things are", r_.warnings.size()));
    }
    Put("</p></section>\n");
  }

  // `more` is HTML, the other arguments are text.
  void Tile(const char* id, const char* name, const std::string& value,
            const std::string& more) {
    Put("<div id=\"{}\"><dt>{}</dt><dd>{}<small>{}</small></dd></div>\n", id,
        name, value, more);
  }
  void Tiles() {
    Put("<dl class=\"tiles\">\n");
    Tile("size", "Size", BytesText(r_.bytes_b),
         fmt::format("{1:.3g} of the {0} before", BytesText(r_.bytes_a),
                     r_.bytes_a == 0 ? 0
                                     : static_cast<double>(r_.bytes_b) /
                                           static_cast<double>(r_.bytes_a)));
    Tile("changed", "Tensors changed", fmt::to_string(r_.changed.size()),
         fmt::format("{} are bitwise equal", r_.summary.equal));
    if (!r_.changed.empty()) {
      Tile("mean", "Mean SQNR", Db(r_.summary.mean_db) + " dB",
           "signal-to-quantization-noise ratio of a tensor");
      const TensorDifference& worst = r_.changed.front().difference;
      Tile("least", "Least SQNR", Db(worst.sqnr_db) + " dB",
           NameText(worst.name));
    }
    size_t shared = 0;
    for (const ReportGroup& g : r_.groups) shared += g.global.has_value();
    Tile("groups", "Fused groups", fmt::to_string(r_.groups.size()),
         fmt::format("{} with one scale for all members", shared));
    Put("</dl>\n");
  }

  void Warnings() {
    if (r_.warnings.empty()) return;
    Put("<section id=\"warnings\"><h2>Worth a look</h2>\n"
        "<ul class=\"warnings\">\n");
    for (const std::string& w : r_.warnings) Put("<li>{}</li>\n", Escaped(w));
    Put("</ul></section>\n");
  }

  void Heat() {
    if (r_.heat.empty()) return;
    Put("<section id=\"heat\"><h2>SQNR by layer and module</h2>\n<p>In dB; "
        "higher is closer to the original, and 6 dB more halve the error. For "
        "experts, the worst one is shown. The usual SQNR is what a format "
        "reaches with normally distributed values.</p>\n<div "
        "class=\"wide\"><table class=\"heat\"><thead><tr><th>layer</th>");
    for (const std::string& column : r_.heat_columns) {
      const size_t dot = column.rfind('.');
      if (dot == std::string::npos) {
        Put("<th>{}</th>", Escaped(column));
      } else {
        Put("<th><span>{}</span>{}</th>", Escaped(column.substr(0, dot)),
            Escaped(column.substr(dot + 1)));
      }
    }
    Put("</tr></thead><tbody>\n");
    for (const HeatRow& row : r_.heat) {
      Put("<tr><th>{}</th>", Escaped(row.layer));
      for (const auto& cell : row.cells) {
        if (!cell) {
          Put("<td></td>");
          continue;
        }
        Put("<td class=\"q{}{}\" title=\"{}{}: {} dB, usual: {:.1f} "
            "dB\">{}</td>",
            ShadeOf(*cell), cell->below ? " low" : "", Escaped(cell->worst),
            cell->tensors > 1 ? fmt::format(", worst of {}", cell->tensors)
                              : "",
            Db(cell->sqnr_db), cell->usual_db,
            std::isfinite(cell->sqnr_db) ? fmt::format("{:.1f}", cell->sqnr_db)
                                         : "none");
      }
      Put("</tr>\n");
    }
    Put("</tbody></table></div>\n<div class=\"legend\"><span>{:.0f} dB or more "
        "below the usual SQNR (framed: below half of it)</span><b>",
        kSteps[kShades / 2 - 1]);
    for (int i = 0; i < kShades; ++i) Put("<i class=\"q{}\"></i>", i);
    Put("</b><span>{:.0f} dB or more above it</span></div></section>\n",
        kSteps[kShades / 2 - 1]);
  }

  void Row(const ChangedTensor& t, bool why) {
    const TensorDifference& d = t.difference;
    Put("<tr><td class=\"name\">{}</td><td>{}</td><td class=\"n\">{} x "
        "{}</td><td class=\"n\">{}</td><td class=\"n\">{:.5f}</td>"
        "<td class=\"n\">{:.3g}</td>",
        NameText(d.name), Escaped(d.kind_b), d.rows, d.cols, Db(d.sqnr_db),
        d.cosine, d.max_error);
    if (why) Put("<td>{}</td>", Escaped(t.why));
    Put("</tr>\n");
  }
  void Table(size_t rows, bool why) {
    Put("<div class=\"wide\"><table "
        "class=\"tensors\"><thead><tr><th>tensor</th><th>stored as"
        "</th><th class=\"n\">shape</th><th class=\"n\">SQNR dB</th>"
        "<th class=\"n\">cosine</th><th class=\"n\">largest error</th>{}"
        "</tr></thead><tbody>\n",
        why ? "<th>why</th>" : "");
    for (size_t i = 0; i < rows; ++i) Row(r_.changed[i], why);
    Put("</tbody></table></div>\n");
  }
  void Worst() {
    if (r_.changed.empty()) return;
    const size_t rows = std::min(kWorst, r_.changed.size());
    Put("<section id=\"worst\"><h2>The {} farthest from the original</h2>\n",
        rows);
    Table(rows, /*why=*/true);
    Put("</section>\n");
  }
  void AllTensors() {
    if (r_.changed.size() <= kWorst) return;
    const size_t rows = std::min(kMostRows, r_.changed.size());
    Put("<section id=\"all\"><h2>All tensors that changed</h2>\n<details>"
        "<summary>{} of {}, the farthest first</summary>\n",
        rows, r_.changed.size());
    Table(rows, /*why=*/false);
    Put("</details></section>\n");
  }

  void Histograms() {
    if (r_.histograms.empty()) return;
    Put("<section id=\"histograms\"><h2>Values of scales</h2>\n"
        "<p>How often each value of a scale occurs, by module over all layers. "
        "Scales at the left end have lost precision, because their blocks are "
        "small compared with the largest one.</p>\n"
        "<div class=\"histograms\">\n");
    for (const Histogram& h : r_.histograms) DrawHistogram(h);
    Put("</div></section>\n");
  }
  void DrawHistogram(const Histogram& h) {
    const auto& counts = h.codes.counts;
    const auto used = [](uint64_t n) { return n > 0; };
    const auto first = std::ranges::find_if(counts, used);
    if (first == counts.end()) return;
    const auto last =
        std::find_if(counts.rbegin(), counts.rend(), used).base() - 1;
    // Shows at least this many codes. Otherwise a single bar could fill the
    // picture.
    constexpr int kFewest = 24;
    const int top = h.codes.kind == ScaleKind::kE4M3 ? 0x7E : 0xFF;
    int lo = static_cast<int>(first - counts.begin());
    int hi = static_cast<int>(last - counts.begin());
    for (bool low = true; hi - lo < kFewest; low = !low) {
      if (low && lo > 0) --lo;
      if (!low && hi < top) ++hi;
    }
    const auto most = static_cast<double>(*std::ranges::max_element(counts));
    constexpr int kHeight = 100;
    Put("<figure><span class=\"name\">{}</span><svg viewBox=\"0 0 {} {}\" "
        "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"histogram of "
        "scales\"><path d=\"",
        Escaped(h.name), hi - lo + 1, kHeight);
    for (int i = lo; i <= hi; ++i) {
      const double share =
          static_cast<double>(counts[static_cast<size_t>(i)]) / most;
      if (share == 0) continue;
      const double height = std::max(1.0, kHeight * share);
      Put("M{} {}v{:.1f}h.9V{}z", i - lo, kHeight, -height, kHeight);
    }
    Put("\"/></svg><div><span>{}</span><span>{}</span></div>",
        ValueText(h.codes.kind, lo), ValueText(h.codes.kind, hi));
    Put("<figcaption>{}, {} of {}, median {}", Escaped(h.format),
        h.codes.total(), Name(h.codes.kind),
        ValueText(h.codes.kind, h.codes.median()));
    const double low = h.codes.zero_share() + h.codes.subnormal_share();
    if (low > 0) Put(", {:.2g} % with reduced precision", 100 * low);
    Put("</figcaption></figure>\n");
  }

  static std::string KindName(const Kind& k) {
    return k.dialect.empty() ? k.format
                             : fmt::format("{} by {}", k.format, k.dialect);
  }
  void Sizes() {
    std::map<std::string, std::pair<Kind, Kind>> kinds;
    for (const Kind& k : r_.kinds_a) kinds[KindName(k)].first = k;
    for (const Kind& k : r_.kinds_b) kinds[KindName(k)].second = k;
    const auto most = static_cast<double>(std::max(r_.bytes_a, r_.bytes_b));
    Put("<section id=\"sizes\"><h2>Where the bytes are</h2>\n"
        "<div class=\"bars\">");
    for (const bool before : {true, false}) {
      Put("<span>{}</span><div class=\"bar\">", before ? "before" : "after");
      size_t colour = 0;
      for (const auto& [name, pair] : kinds) {
        const Kind& k = before ? pair.first : pair.second;
        const size_t c = std::min(colour++, kSizeColours - 1);
        if (k.bytes == 0) continue;
        Put("<i class=\"k{}\" style=\"width:{:.2f}%\" title=\"{}\"></i>", c,
            100 * static_cast<double>(k.bytes) / most, Escaped(name));
      }
      Put("</div><span class=\"n\">{}</span>",
          BytesText(before ? r_.bytes_a : r_.bytes_b));
    }
    Put("</div>\n<div class=\"wide\"><table><thead><tr><th>kind</th>"
        "<th class=\"n\">tensors before</th><th class=\"n\">bytes before</th>"
        "<th class=\"n\">tensors after</th><th class=\"n\">bytes after</th>"
        "<th class=\"n\">bits each</th></tr></thead><tbody>\n");
    size_t colour = 0;
    for (const auto& [name, pair] : kinds) {
      const auto& [a, b] = pair;
      const Kind& of = b.parameters > 0 ? b : a;
      Put("<tr><td><i class=\"dot k{}\"></i>{}</td><td class=\"n\">{}</td>"
          "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}"
          "</td><td class=\"n\">{:.3g}</td></tr>\n",
          std::min(colour++, kSizeColours - 1), Escaped(name), a.tensors,
          BytesText(a.bytes), b.tensors, BytesText(b.bytes),
          of.parameters == 0 ? 0
                             : 8.0 * static_cast<double>(of.bytes) /
                                   static_cast<double>(of.parameters));
    }
    Put("</tbody></table></div>");
    for (const std::string& line : LinesOf(r_.calibration)) {
      Put("\n<p>{}.</p>", line);
    }
    Put("</section>\n");
  }

  void Groups() {
    if (r_.groups.empty()) return;
    const size_t rows = std::min(kMostGroups, r_.groups.size());
    Put("<section id=\"fused\"><h2>Weights that engines fuse</h2>\n"
        "<p>Engines pack the weights of a group into one matrix and use one "
        "scale for it.</p>\n"
        "<details><summary>{} of {} groups</summary>\n"
        "<div "
        "class=\"wide\"><table><thead><tr><th>weights</th><th>scale</th></tr></"
        "thead><tbody>\n",
        rows, r_.groups.size());
    for (size_t i = 0; i < rows; ++i) {
      const ReportGroup& g = r_.groups[i];
      Put("<tr><td class=\"name\">");
      for (const std::string& m : g.modules) {
        Put("{}{}", &m == &g.modules.front() ? "" : "<br>", Escaped(m));
      }
      Put("</td><td>{}</td></tr>\n",
          g.global ? fmt::format("{}", *g.global) : "different scales");
    }
    Put("</tbody></table></div></details></section>\n");
  }

  const Report& r_;
  std::string out_;
};

}  // namespace

std::string PageOf(const Report& report) { return Page(report).Make(); }

}  // namespace quantd::checkpoint
