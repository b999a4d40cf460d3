// The page's style sheet: light or dark as the reader's system is. Wide parts
// scroll separately.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPORT_STYLE_H_
#define QUANTD_CLIENT_CHECKPOINT_REPORT_STYLE_H_

namespace quantd::checkpoint {

// Number of shades of the heat map.
inline constexpr int kShades = 7;

inline constexpr char kStyle[] = R"css(
:root {
  color-scheme: light dark;
  --page: #fcfcfb; --card: #ffffff; --ink: #1c2126; --soft: #5d6670;
  --line: #e3e5e8; --accent: #1f6f9f; --warn: #fff6e6; --warn-line: #e8a33d;
  --s0: #4a7fb0; --s1: #e0944a; --s2: #7aa874; --s3: #b58bb8; --s4: #9a9a9a;
  --good: #2f7d4f; --bad: #b5411a;
  --q0: #b5411a; --q1: #e5874c; --q2: #f6c597; --q3: #f1f0ec;
  --q4: #c3dcea; --q5: #86b8d6; --q6: #3679a8; --on: #111; --far: #fff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171a; --card: #1c2024; --ink: #e4e7ea; --soft: #98a2ad;
    --line: #30363d; --accent: #6fb3dc; --warn: #2b2416; --warn-line: #b7802c;
    --good: #57a877; --bad: #e0693c;
    --q0: #a8401c; --q1: #7d3d1d; --q2: #4d3322; --q3: #262b30;
    --q4: #1e3746; --q5: #1f4f6c; --q6: #2a6f9c; --on: #d5dade; --far: #fff;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans",
    "Liberation Sans", sans-serif;
}
main { max-width: 76rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.5rem 0 .5rem; }
p { margin: .3rem 0 .8rem; max-width: 46rem; }
.soft, caption, figcaption { color: var(--soft); }
.path { overflow-wrap: anywhere; }
code, .name { font: .86em ui-monospace, "SF Mono", Menlo, Consolas,
  "Liberation Mono", monospace; overflow-wrap: anywhere; }
.verdict { background: var(--card); border: 1px solid var(--line);
  border-left: .35rem solid var(--good); border-radius: .5rem;
  padding: .8rem 1rem; margin: 1.25rem 0 0; }
.verdict strong { display: block; font-size: 1.15rem; line-height: 1.3; }
.verdict p { margin: .3rem 0 0; max-width: none; color: var(--soft); overflow-wrap: anywhere; }
.verdict a { color: var(--accent); }
.wrong { border-left-color: var(--bad); }
.wrong strong { color: var(--bad); }
.tiles {
  display: grid; gap: .75rem; margin: .75rem 0 0; padding: 0;
  grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr));
}
.tiles div {
  background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: .7rem .9rem;
}
.tiles dt { color: var(--soft); font-size: .82rem; }
.tiles dd { margin: 0; font-size: 1.35rem; font-weight: 600;
  font-variant-numeric: tabular-nums; }
.tiles small { display: block; font-size: .8rem; font-weight: 400;
  color: var(--soft); overflow-wrap: anywhere; line-height: 1.35; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: .5rem;
  background: var(--card); }
table { border-collapse: collapse; width: 100%; font-size: .88rem;
  font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .38rem .7rem; vertical-align: top; }
thead th { color: var(--soft); font-weight: 500; white-space: nowrap;
  border-bottom: 1px solid var(--line); vertical-align: bottom; }
tbody tr + tr > * { border-top: 1px solid var(--line); }
.n { text-align: right; white-space: nowrap; }
.tensors { min-width: 60rem; }
.tensors td:nth-child(2) { white-space: nowrap; }
.tensors .name { min-width: 13rem; }
.heat { width: auto; min-width: 100%; }
.heat td, .heat tbody th { padding: .16rem .5rem; text-align: center;
  border: 1px solid var(--card); }
.heat tbody th { text-align: right; font-weight: 500; color: var(--soft);
  position: sticky; left: 0; background: var(--card); white-space: nowrap; }
.heat thead th { text-align: center; font-size: .8rem; line-height: 1.25; }
.heat thead span { display: block; font-size: .92em; opacity: .75; }
.heat td { min-width: 4rem; }
.heat td { color: var(--on); }
.heat .q0, .heat .q6 { color: var(--far); }
.q0 { background: var(--q0); } .q1 { background: var(--q1); }
.q2 { background: var(--q2); } .q3 { background: var(--q3); }
.q4 { background: var(--q4); } .q5 { background: var(--q5); }
.q6 { background: var(--q6); }
.low { outline: 3px double var(--ink); outline-offset: -3px; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1rem; align-items: center;
  font-size: .82rem; color: var(--soft); margin: .5rem 0 0; }
.legend b { font-weight: 400; display: inline-flex; }
.legend i { width: 1.5rem; height: .8rem; }
.dot { display: inline-block; width: .7rem; height: .7rem; border-radius: 2px;
  margin-right: .4rem; }
.k0 { background: var(--s0); } .k1 { background: var(--s1); }
.k2 { background: var(--s2); } .k3 { background: var(--s3); }
.k4 { background: var(--s4); }
.bar { display: flex; height: 1.15rem; border-radius: .25rem; overflow: hidden; }
.bars { display: grid; grid-template-columns: auto 1fr auto; gap: .5rem .8rem;
  align-items: center; margin: .6rem 0 .9rem; font-size: .88rem; }
.histograms { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); }
figure { margin: 0; background: var(--card); border: 1px solid var(--line);
  border-radius: .5rem; padding: .7rem .8rem .6rem; }
figure svg { display: block; width: 100%; height: 4.5rem; margin-top: .4rem;
  fill: var(--accent); border-bottom: 1px solid var(--line); }
figure div { display: flex; justify-content: space-between; font-size: .75rem;
  color: var(--soft); }
figcaption { font-size: .8rem; margin-top: .25rem; }
.warnings { margin: 0; padding: 0; list-style: none; }
.warnings li { background: var(--warn); border-left: 3px solid var(--warn-line);
  padding: .5rem .8rem; margin: .4rem 0; border-radius: 0 .3rem .3rem 0;
  overflow-wrap: anywhere; }
details { margin-top: .8rem; }
summary { cursor: pointer; color: var(--accent); padding: .3rem 0; }
footer { margin-top: 3rem; font-size: .82rem; color: var(--soft); }
@media (max-width: 40rem) {
  main { padding: 1.25rem .8rem 3rem; }
  th, td { padding: .32rem .5rem; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .tiles div:last-child:nth-child(odd) { grid-column: 1 / -1; }
  thead th { white-space: normal; }
  .heat { font-size: .78rem; }
  .heat td { min-width: 2.3rem; padding: .16rem .1rem; }
  .heat thead th { writing-mode: vertical-rl; transform: rotate(180deg);
    text-align: left; padding: .4rem .1rem; }
  .tensors { min-width: 0; }
  .tensors thead { display: none; }
  .tensors tr { display: grid; grid-template-columns: repeat(4, auto);
    padding: .45rem .2rem; }
  .tensors tr + tr { border-top: 1px solid var(--line); }
  .tensors tr > td { border: 0; padding: .05rem .4rem; text-align: left; }
  .tensors .name, .tensors td:nth-child(2), .tensors td:nth-child(7) {
    grid-column: 1 / -1; }
  .tensors td:nth-child(2) { color: var(--soft); }
  .tensors .n::before { display: block; font-size: .72rem; color: var(--soft); }
  .tensors td:nth-child(3)::before { content: "shape"; }
  .tensors td:nth-child(4)::before { content: "SQNR dB"; }
  .tensors td:nth-child(5)::before { content: "cosine"; }
  .tensors td:nth-child(6)::before { content: "largest error"; }
}
@media print { details > * { display: block; } .wide { overflow: visible; } }
)css";

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPORT_STYLE_H_
