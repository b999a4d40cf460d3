#!/usr/bin/env python3
"""Converts directories with the tensors of published models by `quantctl
convert`, and checks the results.

  run.py QUANTCTL [MODEL...]     checks; a MODEL is a part of a name
  run.py QUANTCTL --record       the same, and records the results for README.md's table

Without MODEL and --record it also fails if the stored results differ.

For each model it writes a full directory of headers and holes for --dry-run,
and a small one with a layer of each kind and two experts, which it converts.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import check
import directories
import expert_models
import image_models
import stored_models
import tensors as table
import text_models

HERE = pathlib.Path(__file__).resolve().parent
MODELS = [*text_models.MODELS, *expert_models.MODELS, *stored_models.MODELS,
          *image_models.MODELS]


# The plan is the same in other dialects, so only the small model is converted
# to them.
USUAL = {"also": [("modelopt", "nvfp4")]}


def convert(quantctl, source, target, run, *more):
    """Returns exit code, the event of the plan, and all output."""
    done = subprocess.run(
        [quantctl, "convert", source, target, "--json",
         "--dialect", run.get("dialect", "compressed-tensors"),
         "--format", run.get("format", "nvfp4"), *more],
        capture_output=True, text=True, timeout=300, check=False)
    said = done.stdout + done.stderr
    if done.returncode:
        return done.returncode, None, said
    events = [json.loads(line) for line in done.stdout.splitlines() if line]
    return 0, next((e for e in events if e["event"] == "plan"), None), said


def write(folder, model, small, seed=0):
    """Writes a model. Returns its directory, or its file if it has no config; its tensors; and
    their values."""
    tensors = table.tensors_of(model, small)
    config = None if model["config"] is None else table.config_of(model, small)
    numbers = directories.numbers_for(tensors, seed) if small else None
    directories.write(folder, tensors, config,
                      min(model["shards"], 2 if small else 1 << 20),
                      model.get("stem", "model"), numbers, model.get("others"))
    source = folder
    if config is None:
        source = folder / f"{model['stem']}.safetensors"
    return source, tensors, numbers


def refusal(code, said, run):
    """Returns what is wrong with a run that must be refused."""
    if code != 3:
        return [f"exit code {code}, expected a refusal (3)"]
    if not any(word in said.lower() for word in run["refused"].split("|")):
        reason = re.sub(r"/\S*/", "", said.strip().splitlines()[-1])
        return [f"refused, but not because of {run['refused']}: {reason}"]
    return []


def dry(quantctl, model, run, source, tensors, out):
    """Checks --dry-run of the full model."""
    code, event, said = convert(quantctl, source, out, run, "--dry-run")
    counts = collections.Counter()
    if "refused" in run:
        return refusal(code, said, run), counts
    if code != 0 or event is None:
        return [f"--dry-run: exit code {code}: {said[-300:].strip()}"], counts
    if out.exists():
        return ["--dry-run wrote something"], counts
    if run.get("format") == "bf16":
        expected = bf16_size(tensors)
        if event["bytes_out"] == expected:
            return [], counts
        return [f"--dry-run: {event['bytes_out']} bytes out, expected "
                f"{expected}"], counts
    return check.plan(event, check.in_bf16(tensors)[0], counts), counts


def bf16_size(tensors):
    """Returns the bytes of a quantized model in bf16."""
    total = 0
    for t in tensors:
        if t.name.endswith(("weight_scale_inv", "_scales")):
            continue
        elements = t.size * (2 if t.name.endswith("_blocks") else 1)
        halves = t.stored == "fp8" or t.name.endswith("_blocks")
        total += 2 * elements if halves else t.size
    return total


def real(quantctl, model, run, source, tensors, numbers, out):
    """Checks a conversion of the small model."""
    code, _, said = convert(quantctl, source, out, run, "--server", "local:cpu")
    if "refused" in run:
        return refusal(code, said, run)
    if code != 0:
        return [f"exit code {code}: {said[-300:].strip()}"]
    written = directories.read(out)
    lines = check.index(out, written)
    if run.get("format") == "bf16":
        return lines + check.decoded(written, tensors, numbers)
    tensors, numbers = check.in_bf16(tensors, numbers)
    lines += check.content(written, tensors, numbers) + check.scales(written)
    if model["config"] is not None:
        config = json.loads((out / "config.json").read_text())
        lines += check.configuration(config, table.config_of(model, True),
                                     model, tensors, written)
    for name in model.get("others", {}):
        if not (out / name).exists():
            lines.append(f"{name} is missing")
    return lines


def rows_of(quantctl, model, folder):
    """Yields a row of the results for each run of a model."""
    source, tensors, _ = write(folder / "whole", model, small=False)
    small, few, numbers = write(folder / "small", model, small=True)
    for number, run in enumerate(model.get("runs", [USUAL])):
        out = folder / f"out{number}"
        began = time.monotonic()
        lines, counts = dry(quantctl, model, run, source, tensors, out)
        seconds = time.monotonic() - began
        for dialect, format in [(None, None), *run.get("also", [])]:
            more = {**run, "dialect": dialect, "format": format}
            found = real(quantctl, model, run if dialect is None else more,
                         small, few, numbers, folder / f"{dialect}{number}")
            # Omits lines that were already reported.
            said = {line.split(" (")[0] for line in lines}
            lines += [f"{line}, with --dialect {dialect}" if dialect else line
                      for line in found if line.split(" (")[0] not in said]
        yield {"model": model["name"], "hub": model["hub"],
               "tensors": len(tensors), "files": max(1, model["shards"]),
               "bytes": sum(t.size for t in tensors),
               "dialect": run.get("dialect", "compressed-tensors"),
               "format": run.get("format", "nvfp4"),
               "also": [" ".join(pair) for pair in run.get("also", [])],
               "refused": "refused" in run, **counts, "kept": kept(model, run),
               "otherwise": lines, "seconds": round(seconds, 2)}


def kept(model, run):
    """Returns a word for each kind of matrix that stays unquantized."""
    if "refused" in run or run.get("format") == "bf16":
        return []
    words = [row.why.split(":")[0] for row in table.rows_of(model)
             if row.word in ("plain", "tied")]
    return list(dict.fromkeys(words))


def show(row):
    outcome = "ok  " if not row["otherwise"] else "FAIL"
    counts = "refused" if row["refused"] else "  ".join(
        f"{row[key]} {key}" for key in ("quantized", "plain", "copied")
        if key in row) or "decoded"
    print(f"{outcome} {row['model']:36} {row['dialect']} {row['format']}: "
          f"{counts}  ({row['seconds']} s)", flush=True)
    for line in row["otherwise"]:
        print(f"       {line}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("quantctl", type=pathlib.Path)
    parser.add_argument("model", nargs="*")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    quantctl = options.quantctl.resolve()
    wanted = [model for model in MODELS if not options.model or any(
        word.lower() in model["name"].lower() for word in options.model)]
    rows = []
    for model in wanted:
        with tempfile.TemporaryDirectory() as folder:
            for row in rows_of(quantctl, model, pathlib.Path(folder)):
                show(row)
                rows.append(row)
    failed = sum(bool(row["otherwise"]) for row in rows)
    print(f"{failed} of {len(rows)} runs of {len(wanted)} models failed")
    for row in rows:
        del row["seconds"]
    page = HERE / "results.json"
    if options.record:
        page.write_text(json.dumps(rows, indent=1) + "\n")
    elif not options.model and json.loads(page.read_text()) != rows:
        print("results.json is stale: use --record, then tests/checks.sh --fix tables")
        return 1
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
