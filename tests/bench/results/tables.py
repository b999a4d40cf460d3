#!/usr/bin/env python3
"""Writes tables of figures into pages, out of committed results.

The pages are those of SECTIONS below; what stands between the marks of a
section is replaced. Results are brought into one form, too: one row a line,
numbers to five digits.

  tables.py            brings pages and results up to date
  tables.py --check    changes nothing; exit code 1 if one is stale

Exit code 1 also if rows of engines.cc differ from the recorded runs of engines.
"""

import importlib
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ENGINES = HERE.parents[1] / "ecosystem/engines"
ACTIVATIONS = HERE.parents[1] / "ecosystem/activations"
sys.path[:0] = [str(ENGINES), str(ACTIVATIONS)]
SHAPES = ("16384x16384", "2048x4096")
CPU_ROWS = (
    ("nvfp4_row", "NVFP4 rowwise"),
    ("nvfp4_row_rht", "NVFP4 rowwise with RHT"),
    ("nvfp4_col_rht", "NVFP4 columnwise with RHT"),
    ("nvfp4_both_rht", "NVFP4 both with RHT"),
    ("nvfp4_row_stochastic", "NVFP4 rowwise, stochastic"),
    ("nvfp4_row_4over6", "NVFP4 rowwise, 4over6"),
    ("nvfp4_2d_both", "NVFP4 in squares, both"),
    ("mxfp8_row", "MXFP8 rowwise"),
    ("mxfp8_both", "MXFP8 both"),
    ("mxfp4_both", "MXFP4 both"),
    ("fp8_e4m3_row", "FP8 rowwise"),
    ("fp8_e4m3_both", "FP8 both"),
    ("fp8_block_row", "FP8 1x128 rowwise"),
    ("fp8_block_both", "FP8 1x128 both"),
    ("fp8_block_2d_both", "FP8 128x128 both"),
)
SIZES = ((4 << 10, "4 KiB"), (1 << 20, "1 MiB"), (4 << 20, "4 MiB"),
         (64 << 20, "64 MiB"))


def read(name):
  return json.loads((HERE / name).read_text())


def rounded(value):
  """Rounds numbers to five digits, which is more exact than any measurement."""
  if isinstance(value, float):
    return float(f"{value:.5g}")
  if isinstance(value, list):
    return [rounded(item) for item in value]
  if isinstance(value, dict):
    return {key: rounded(item) for key, item in value.items()}
  return value


def tidy(value, indent=""):
  """JSON with a line for each row of results."""
  text = json.dumps(value, ensure_ascii=False)
  items = value.values() if isinstance(value, dict) else value
  nested = isinstance(value, (dict, list)) and any(
      isinstance(item, (dict, list)) and item for item in items)
  if not nested or (len(indent) > 1 and len(text) < 4000):
    return text
  inner = indent + " "
  lines = ([f"{json.dumps(key)}: {tidy(item, inner)}"
            for key, item in value.items()] if isinstance(value, dict) else
           [tidy(item, inner) for item in value])
  marks = "{}" if isinstance(value, dict) else "[]"
  joined = f",\n{inner}".join(lines)
  return f"{marks[0]}\n{inner}{joined}\n{indent}{marks[1]}"


def find(rows, **wanted):
  for row in rows:
    if all(row.get(key) == value for key, value in wanted.items()):
      return row
  return None


def number(row, key, digits=2):
  return f"{row[key]:.{digits}f}" if row and key in row else ""


def time(row, key="us"):
  """Microseconds to three digits."""
  us = row[key] if row else 0
  return number(row, key, 2 if us < 10 else 1 if us < 100 else 0)


def table(header, rule, rows):
  lines = [header, rule, *rows]
  return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def source(results):
  device = results.get("device") or results["host"]
  return (f"{device}, commit {results['commit']}, {results['date'][:10]}")


def gpu_table(rows, variants):
  """The rows that are variants of other rows, or all other rows."""
  header = ["variant", "base row"] if variants else ["row", "ceiling"]
  for shape in SHAPES:
    header += [f"{shape}, us", "speed of base" if variants else "TB/s",
               "of ceiling"]
  lines = []
  for name in dict.fromkeys(
      row["name"] for row in rows if ("of" in row) == variants):
    line = [f"`{name}`",
            find(rows, name=name)["of" if variants else "ceiling"]]
    for shape in SHAPES:
      row = find(rows, name=name, shape=shape, dtype="bf16")
      line += [time(row), number(row, "time_ratio" if variants else "tbps"),
               number(row, "ratio")]
    lines.append(line)
  return table(header, ["---", "---"] + ["---:"] * 3 * len(SHAPES), lines)


def gpu():
  bench = read("h200/gpu_bench.json")
  latency = bench["latency"]
  waits = latency["host_waits"]
  return (f"{source(bench)}, bf16:\n\n"
          f"{gpu_table(bench['rows'], False)}\n"
          f"{gpu_table(bench['rows'], True)}\n"
          f"Computing the amax and rowwise NVFP4 of {latency['shape']} takes "
          f"{time(latency)} us in {latency['launches']} launches,\nfrom the "
          "first kernel's start to the last one's end, and "
          f"{number(latency, 'graph_us', 1)} us as a graph. The host waits "
          f"for the device {waits} times.\n")


def cpu():
  small, large = read("cpu/cpu_bench.json"), read("h200/cpu_bench.json")
  numpy = read("cpu/cpu_numpy.json")
  lines = []
  for name, words in CPU_ROWS:
    lines.append([
        words,
        number(find(small["rows"], name=name, isa="baseline"), "ratio"),
        number(find(small["rows"], name=name, isa="avx2"), "ratio"),
        number(find(numpy["rows"], name=name), "times", 0),
        number(find(large["rows"], name=name, isa="avx512"), "ratio"),
    ])
  header = ["", f"{small['cores']} cores, SSE2", f"{small['cores']} cores, AVX2",
            "AVX2 / numpy", f"{large['cores']} cores, AVX-512"]
  return (f"{small['cores']} cores: {source(small)}. "
          f"{large['cores']} cores: {source(large)}.\n\n"
          + table(header, ["---"] + ["---:"] * 4, lines))


def service():
  lines = []
  for name in ("cpu/rpc_bench", "h200/rpc_bench_cpu", "h200/rpc_bench_cuda"):
    results = read(f"{name}.json")
    backend = f"quantd {results['device']}"
    for server in ("quantd memcpy", backend):
      line = [f"`{name}.json`", f"{results['cores']}",
              "one memcpy" if server == "quantd memcpy" else results["device"]]
      line += [number(find(results["rows"], server=server, size_bytes=size),
                      "ratio_to_echo") for size, _ in SIZES]
      lines.append(line)
  return table(["file", "cores", "arithmetic"] + [text for _, text in SIZES],
               ["---", "---:", "---"] + ["---:"] * len(SIZES), lines)


def memory():
  lent, shared = read("h200/lent_bench.json"), read("h200/shared_memory.json")
  sizes = SIZES + ((256 << 20, "256 MiB"),)
  lines = []
  for words, rows, wanted in (
      ("bare copies, in and out at once", lent["rows"],
       {"memory": "page-locked", "amax": "given"}),
      ("job on page-locked memory", lent["rows"],
       {"memory": "page-locked", "amax": "given"}),
      ("job on pageable memory", lent["rows"],
       {"memory": "pageable", "amax": "given"}),
      ("job on memory of the GPU", lent["rows"],
       {"memory": "device", "amax": "given"}),
      ("call, shared memory, cuda:0", shared["rows"],
       {"transport": "shared", "device": "cuda:0", "amax": "given"}),
      ("call, unix socket, cuda:0", shared["rows"],
       {"transport": "unix", "amax": "given"}),
      ("call, shared memory, cpu:0", shared["rows"],
       {"transport": "shared", "device": "cpu", "amax": "given"}),
      ("call in process, cpu", shared["rows"],
       {"transport": "local", "device": "cpu", "amax": "given"})):
    key = "ceiling_us" if words.startswith("bare") else "us"
    lines.append([words] + [time(find(rows, bytes=size, **wanted), key)
                            for size, _ in sizes])
  return (f"{source(lent)}; calls {source(shared)}.\n\n" +
          table(["time in us"] + [text for _, text in sizes],
                ["---"] + ["---:"] * len(sizes), lines))


def figures():
  """The main figures, for the front page."""
  bench, state = read("h200/gpu_bench.json"), read("h200/gpu.json")
  small = read("cpu/cpu_bench.json")
  numpy, rpc = read("cpu/cpu_numpy.json"), read("cpu/rpc_bench.json")
  compared = sum(part["elements"] for part in state["parts"].values())
  lines = [["elements compared between an H200 and the oracle or the CPU",
            f"{compared / 1e9:.1f} billion, "
            + ("none differs" if state["state"] == "passed" else "FAILED")]]
  shape = SHAPES[0]
  row = find(bench["rows"], name="nvfp4_row", shape=shape, dtype="bf16")
  lines.append([f"H200, NVFP4 rowwise, {shape}",
                f"{time(row)} us, {number(row, 'tbps')} TB/s, "
                f"{number(row, 'ratio')} of the speed of a copy"])
  latency = bench["latency"]
  lines.append([f"H200, amax and NVFP4 rowwise, {latency['shape']}",
                f"{time(latency)} us in {latency['launches']} launches"])
  avx2 = find(small["rows"], name="nvfp4_row_rht", isa="avx2")
  lines.append([f"{small['cores']} cores with AVX2, NVFP4 rowwise with RHT",
                f"{number(avx2, 'ratio')} of the speed of a memcpy, "
                f"{number(find(numpy['rows'], name='nvfp4_row_rht'), 'times', 0)}"
                " times that of numpy on one core"])
  echo = find(rpc["rows"], server="quantd memcpy", size_bytes=1 << 20)
  lines.append([f"a call of 1 MiB, {rpc['cores']} cores, without arithmetic",
                f"{number(echo, 'ratio_to_echo')} of the rate of a gRPC echo"])
  return table(["what", "measured"], ["---", "---"], lines)


def fuzz():
  """Every committed run of tests/fuzz/run.sh, and their sum."""
  lines, executions, seconds = [], 0, 0
  for file in sorted((HERE / "fuzz").glob("*.json")):
    run = json.loads(file.read_text())
    executions += run["executions"]
    seconds += run["seconds"]
    lines.append([run["date"], f"`{run['commit']}`", f"{run['executions']:,}",
                  str(run["seconds"]), str(run["cores"]),
                  f"{run['line_coverage_percent']} %", run.get("note", "")])
  lines.append(["all", "", f"{executions:,}", str(seconds), "", "", ""])
  return table(["date", "commit", "executions", "seconds", "cores",
                "lines reached", "note"],
               ["---", "---", "---:", "---:", "---:", "---:", "---"], lines)


def engine_rows():
  """Yields the rows of engines.cc, by which quantctl recommends engines."""
  text = (MODELS / "engines.cc").read_text()
  names, _, text = text.partition("kRuns[] = {")
  text = text.partition("\n};")[0]
  # Constants that rows name.
  for name, words in re.findall(r"^constexpr \w+ (k\w+)(?:\[\])? =([^;]*);", names,
                                re.M):
    text = re.sub(rf"\b{name}\b", words.strip(" {}\n"), text)
  for row in re.findall(r"\{([^{}]*)\}", text):
    # Texts that follow each other are one.
    row = re.sub(r'"\s+"', "", row)
    yield tuple((re.findall(r'"([^"]*)"', row) + ["", ""])[:9])


def engines():
  lines = []
  for row in engine_rows():
    engine, version, dialect, formats, kind, tried, outcome, said, only = row
    if only:
      kind += f" ({only})"
    lines.append([engine, version, f"`{dialect}`", formats, kind, tried,
                  outcome, said])
  return table(["engine", "version", "dialect", "formats", "kind", "tried",
                "outcome", "why, or its message"], ["---"] * 8, lines) \
      .replace("|  |", "| |")


def loaders():
  """What engines loaded on a CPU."""
  return importlib.import_module("table").page()


def losses():
  """What real models lose in every format."""
  return importlib.import_module("losses").table()


PUBLISHED = HERE / "../../ecosystem/published"


def published():
  """Each published model and the result of its conversion."""
  lines = []
  for row in json.loads((PUBLISHED / "results.json").read_text()):
    how = [f"{row['dialect']} {row['format']}", *row["also"]]
    if row["refused"]:
      outcome = ["refused"] + [""] * 3
    elif row["format"] == "bf16":
      outcome = ["decoded"] + [""] * 3
    else:
      outcome = [f"{row.get(key, 0):,}" for key in (
          "quantized", "plain", "copied")] + [", ".join(row["kept"])]
    lines.append([row["model"], f"{row['tensors']:,} in {row['files']}",
                  f"{row['bytes'] / 1e9:,.1f}", ", ".join(how), *outcome,
                  "<br>".join(row["otherwise"]).replace("|", "\\|")])
  return table(["model", "tensors in files", "GB", "converted to", "quantized",
                "matrices left", "other tensors", "kinds of matrices left",
                "differences"],
               ["---", "---:", "---:", "---", "---:", "---:", "---:", "---",
                "---"], lines)


MODELS = HERE / "../../../client/quantctl/models"
SECTIONS = ((MODELS / "ENGINES.md", "runs", engines),
            (PUBLISHED / "README.md", "models", published),
            (HERE / "../../fuzz/README.md", "runs", fuzz),
            (HERE / "../../../README.md", "figures", figures),
            (HERE / "README.md", "GPU", gpu),
            (HERE / "README.md", "CPU", cpu),
            (HERE / "README.md", "service", service),
            (HERE / "README.md", "memory", memory),
            (ENGINES / "README.md", "engines", loaders),
            (ACTIVATIONS / "README.md", "losses", losses))


def main():
  check = sys.argv[1:] == ["--check"]
  if sys.argv[1:] and not check:
    sys.exit(__doc__)
  stale = False
  tests = HERE.parents[1]
  for file in sorted([*tests.glob("*/results/**/*.json"),
                      *tests.glob("ecosystem/**/results*.json")]):
    text = file.read_text()
    fresh = tidy(rounded(json.loads(text))) + "\n"
    if fresh == text:
      continue
    stale = True
    if check:
      print(f"{file}: not one row a line, run {pathlib.Path(__file__).name}")
    else:
      file.write_text(fresh)
  for page, name, make in SECTIONS:
    page = page.resolve()
    text = page.read_text()
    start, end = f"<!-- {name}: generated -->\n", f"<!-- end of {name} -->\n"
    before, found, rest = text.partition(start)
    _, ended, after = rest.partition(end)
    if not found or not ended:
      sys.exit(f"{page}: no section '{name}'")
    fresh = f"{before}{start}\n{make()}\n{end}{after}"
    if fresh == text:
      continue
    stale = True
    if check:
      print(f"{page}: '{name}' is stale, run {pathlib.Path(__file__).name}")
    else:
      page.write_text(fresh)
  doubts = importlib.import_module("table").doubts(list(engine_rows()))
  print("".join(f"{doubt}\n" for doubt in doubts), end="")
  return bool(doubts) or check and stale


if __name__ == "__main__":
  sys.exit(main())
