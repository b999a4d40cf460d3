#!/usr/bin/env python3
"""Says which lines of the parsers the fuzzer's inputs reach, and writes the
result of a run.

    tests/fuzz/coverage.py --executions N --seconds S --seconds-each S \\
        FOUND RESULT TARGET...

Builds the programs once more with clang's coverage and without sanitizers, in
build/fuzz-coverage, and runs every input of FOUND and of the corpora. What is
counted are the functions that read, and not those beside them that write.
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
                "proto/gather.cc"],
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
    "http": ["server/http_listener.cc"],
    "tokens": ["server/tokens.cc"],
    "configuration": ["server/configuration.cc", "server/options.cc",
                      "server/option_rules.cc"],
    "door": ["proto/memory/offer.cc", "server/memory/door.cc"],
}
# Functions that write, by their names without arguments.
WRITERS = re.compile(
    r"::Writer::|QuantizedFile::(Parts|Metadata|Append)|npy::Write$"
    r"|WriteLent|wire::Write$|DescribeReply|ReplyHead|MakeHead"
    r"|npy::MakeHeader|ReadEnvironment"
    r"|UnknownEnvironment|IsOfKubernetes|ToLine|LooksLikeSecret")


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
    """{file: {line: reached}} of the parsers of a target."""
    program = BUILD / f"tests/fuzz/fuzz_{target}"
    profile = BUILD / f"{target}.profraw"
    merged = BUILD / f"{target}.profdata"
    inputs = [found / target, BUILD / "tests/fuzz/corpus" / target]
    with open(BUILD / f"{target}.log", "w", encoding="utf-8") as log:
        subprocess.run(
            [program, "-runs=0", "-max_len=4096", "-close_fd_mask=3",
             *(d for d in inputs if d.is_dir())],
            check=True, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log,
            stderr=log, env={**os.environ, "LLVM_PROFILE_FILE": str(profile)})
    run(["llvm-profdata-14", "merge", "-o", merged, profile])
    sources = [str(ROOT / s) for s in PARSERS[target]]
    report = run(["llvm-cov-14", "export", "-format=lcov",
                  f"-instr-profile={merged}", program, *sources])
    return parse_lcov(report, PARSERS[target])


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
    """A function's name without its arguments."""
    return re.sub(r"\(anonymous namespace\)::", "", function).split("(")[0]


def keep(starts, lines):
    """The lines that are not of a function that writes."""
    names = run(["c++filt"] + [f.split(":")[-1] for _, f in starts])
    rows = sorted((line, WRITERS.search(plain(n)) is not None)
                  for (line, _), n in zip(starts, names.splitlines()))
    kept = {}
    for line, reached in lines.items():
        before = [writes for at, writes in rows if at <= line]
        if not before or not before[-1]:
            kept[line] = reached
    return kept


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--executions", type=int, required=True)
    options.add_argument("--seconds", type=int, required=True)
    options.add_argument("--seconds-each", type=int, required=True)
    options.add_argument("--missing", action="store_true",
                         help="name the lines that nothing reached")
    options.add_argument("found", type=pathlib.Path)
    options.add_argument("result", type=pathlib.Path)
    options.add_argument("targets", nargs="+")
    o = options.parse_args()
    build(o.targets)
    parsers, all_lines, all_reached = {}, 0, 0
    for target in o.targets:
        for name, lines in sorted(lines_of(target, o.found.resolve()).items()):
            reached = sum(lines.values())
            parsers[name] = {"target": target, "lines": len(lines),
                             "reached": reached}
            all_lines += len(lines)
            all_reached += reached
            print(f"{name}: {reached} of {len(lines)} lines")
            if o.missing:
                print("  not reached:",
                      *sorted(n for n, hit in lines.items() if not hit))
    share = round(100 * all_reached / max(all_lines, 1), 1)
    print(f"{share} % of {all_lines} lines of the parsers")
    cpu = re.search(r"model name\s*: (.*)",
                    pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    commit = run(["git", "rev-parse", "--short", "HEAD"]).strip()
    o.result.write_text(json.dumps({
        "what": "tests/fuzz/run.sh",
        "date": datetime.date.today().isoformat(), "commit": commit,
        "cpu": cpu.group(1) if cpu else "", "cores": os.cpu_count(),
        "executions": o.executions, "seconds": o.seconds,
        "seconds_each": o.seconds_each, "targets": executions(o),
        "line_coverage_percent": share, "parsers": parsers}, indent=1) + "\n",
        encoding="utf-8")


def executions(o):
    rows = {}
    for target in o.targets:
        log = o.found / f"{target}.log"
        text = log.read_text(errors="replace") if log.exists() else ""
        match = re.findall(r"number_of_executed_units: (\d+)", text)
        rows[target] = int(match[-1]) if match else 0
    return rows


if __name__ == "__main__":
    sys.exit(main())
