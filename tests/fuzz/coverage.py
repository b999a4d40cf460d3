#!/usr/bin/env python3
"""Counts how many lines of the parsers inputs reach, for coverage.sh and the
results of run.sh. Use those scripts; --help lists the options of this one.

Counts only functions that parse inputs, not others in the same files. The
inputs are the corpora in the tree and, with --found, those in a folder.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build/fuzz-coverage"

# The parsers of each target.
PARSERS = {
    "request": ["proto/separate_payload.cc", "proto/request.cc",
                "proto/request_dequantize.cc", "proto/memory/ranges.cc",
                "proto/stream/chunks.cc"],
    "reply": ["proto/reply.cc", "client/net/replies.cc",
              "client/net/server_status.cc"],
    "safetensors": ["client/files/safetensors_header.cc",
                    "client/files/quantized_file.cc"],
    "npy": ["client/files/npy.cc"],
    "description": ["client/files/quantized_description.cc",
                    "client/files/sign_mask_text.cc"],
    "checkpoint": ["client/checkpoint/model.cc",
                   "client/checkpoint/check/declared.cc",
                   "client/checkpoint/check/module_list.cc",
                   "client/checkpoint/lint/config_rules.cc",
                   "client/checkpoint/lint/list_rules.cc"],
    "http": ["server/observe/http_listener.cc"],
    "tokens": ["server/net/tokens.cc", "proto/net/trace_context.cc"],
    "configuration": ["server/config/configuration.cc", "server/config/options.cc",
                      "server/config/option_rules.cc"],
    "door": ["proto/memory/offer.cc", "server/memory/door.cc"],
}
# Functions that write or do not parse inputs, by names without arguments.
WRITERS = re.compile(
    r"::Writer::|QuantizedFile::(Parts|Metadata|Append)|npy::Write$"
    r"|WriteLent|wire::Write$|DescribeReply|ReplyHead|MakeHead"
    r"|RequestHead|StreamHead|Write(Request|Reply|Outputs)|CheckHead"
    r"|npy::MakeHeader|ReadEnvironment"
    r"|ToLine|LooksLikeSecret")


def run(command, **more):
    return subprocess.run(command, check=True, cwd=ROOT, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, **more).stdout


def build(targets):
    run(["cmake", "--preset", "fuzz", "-B", BUILD, "-DQUANTD_SANITIZE=",
         "-DQUANTD_FUZZ_COVERAGE=ON"])
    run(["cmake", "--build", BUILD, "-j", str(os.cpu_count()), "--target",
         *(f"fuzz_{t}" for t in targets)])


def lines_of(target, found):
    """Returns {file: {line: reached}} for the parsers of a target."""
    program = BUILD / f"tests/fuzz/fuzz_{target}"
    profile = BUILD / f"{target}.profraw"
    merged = BUILD / f"{target}.profdata"
    inputs = [BUILD / "tests/fuzz/corpus" / target]
    if found:
        inputs.append(found / target)
    with open(BUILD / f"{target}.log", "w", encoding="utf-8") as log:
        subprocess.run(
            [program, "-runs=0", "-max_len=4096", "-close_fd_mask=3",
             *(d for d in inputs if d.is_dir())],
            check=True, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log,
            stderr=log, env={**os.environ, "LLVM_PROFILE_FILE": str(profile)})
    run(["llvm-profdata", "merge", "-o", merged, profile])
    # Exports all files. With a compiler cache a source has several paths, and
    # llvm-cov omits paths that it does not know.
    report = run(["llvm-cov", "export", "-format=lcov",
                  f"-instr-profile={merged}", program])
    files = parse_lcov(report, PARSERS[target])
    absent = set(PARSERS[target]) - set(files)
    if absent:
        sys.exit(f"coverage.py: {target} has no lines of {sorted(absent)}")
    return files


def parse_lcov(report, wanted):
    files = {}
    for record in report.split("end_of_record\n"):
        starts, lines, name = [], {}, None
        for row in record.splitlines():
            kind, _, value = row.partition(":")
            if kind == "SF":
                name = str(pathlib.Path(value).resolve().relative_to(ROOT))
            elif kind == "FN":
                line, _, function = value.partition(",")
                starts.append((int(line), function))
            elif kind == "DA":
                line, _, count = value.partition(",")
                lines[int(line)] = int(count.split(",")[0]) > 0
        if name in wanted:
            files[name] = keep(starts, lines)
    return files


def plain(function):
    """Returns a function's name without its arguments."""
    return re.sub(r"\(anonymous namespace\)::", "", function).split("(")[0]


def keep(starts, lines):
    """Returns the lines outside WRITERS."""
    names = run(["c++filt"] + [f.split(":")[-1] for _, f in starts])
    rows = sorted((line, WRITERS.search(plain(n)) is not None)
                  for (line, _), n in zip(starts, names.splitlines()))
    kept = {}
    for line, reached in lines.items():
        before = [writes for at, writes in rows if at <= line]
        if not before or not before[-1]:
            kept[line] = reached
    return kept


def count(targets, found, missing):
    """Prints the table. Returns {file: target, lines, reached} and both sums."""
    parsers, all_lines, all_reached = {}, 0, 0
    row = "{:<42} {:>6} {:>8} {:>6}"
    print(row.format("parser", "lines", "covered", "%"))
    for target in targets:
        for name, lines in sorted(lines_of(target, found).items()):
            reached = sum(lines.values())
            parsers[name] = {"target": target, "lines": len(lines),
                             "reached": reached}
            all_lines += len(lines)
            all_reached += reached
            print(row.format(name, len(lines), reached,
                             percent(reached, len(lines))), flush=True)
            if missing and reached < len(lines):
                print("  not reached:",
                      *sorted(n for n, hit in lines.items() if not hit))
    print(row.format("all", all_lines, all_reached,
                     percent(all_reached, all_lines)))
    return parsers, all_lines, all_reached


def percent(part, whole):
    # Rounds down, so that 94.96 % is not 95.
    return 1000 * part // max(whole, 1) / 10


def write(o, parsers, share):
    commit = run(["git", "rev-parse", "--short", "HEAD"]).strip()
    targets = executions(o)
    o.result.write_text(json.dumps({
        "what": "tests/fuzz/run.sh",
        "date": datetime.date.today().isoformat(), "commit": commit,
        "cpu": o.cpu or this_cpu(), "cores": o.cores,
        "executions": sum(targets.values()), "seconds": o.seconds,
        "targets": targets,
        "line_coverage_percent": share, "parsers": parsers}, indent=1) + "\n",
        encoding="utf-8")


def this_cpu():
    cpu = re.search(r"model name\s*: (.*)",
                    pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return cpu.group(1) if cpu else ""


def executions(o):
    """Returns the executions of each target over all rounds, which run.sh counts."""
    return {target: int((o.found / f"{target}.executions").read_text())
            for target in o.targets}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--bar", type=float, default=0,
                         help="exit with 1 below this percentage")
    options.add_argument("--missing", action="store_true",
                         help="name the lines that no input reached")
    options.add_argument("--found", type=pathlib.Path,
                         help="folder with a folder of inputs for each target")
    options.add_argument("--result", type=pathlib.Path,
                         help="with --found: write the results of a run")
    options.add_argument("--seconds", type=int, help="recorded for that run")
    options.add_argument("--cores", type=int, help="recorded for that run")
    options.add_argument("--cpu", help="CPU of that run, if not this one")
    options.add_argument("targets", nargs="*")
    o = options.parse_args()
    o.targets = o.targets or list(PARSERS)
    unknown = [t for t in o.targets if t not in PARSERS]
    if unknown:
        options.error(f"no target {unknown[0]}: {' '.join(PARSERS)}")
    found = o.found.resolve() if o.found else None
    build(o.targets)
    parsers, lines, reached = count(o.targets, found, o.missing)
    if o.result:
        write(o, parsers, percent(reached, lines))
    if percent(reached, lines) < o.bar:
        print(f"fewer than {o.bar:g} % of the lines")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
