"""Compares the directories that `quantctl convert` writes with those of the
dialect's library.

python checkpoints.py DIALECT MODELS RESULTS.json

MODELS is the directory that models.py writes.

Exits with 1 if a check fails. A dialect's module in dialects/ yields a row for
each check: what was compared, and whether it passed.
"""

import argparse
import importlib
import json
import pathlib
import sys
import tempfile
import traceback

import quantd


def convert(source, folder, dialect, format, *more):
    """Converts `source` with quantctl and returns the new directory."""
    target = folder / f"{source.name}-{dialect}-{format}"
    quantd.local("convert", source, target, "--dialect", dialect, "--format",
                 format, *more)
    return target


def back(source, folder):
    """Decodes `source` to plain bf16 and returns the new directory."""
    target = folder / f"{source.name}-bf16"
    quantd.local("convert", source, target, "--dialect", "none", "--format",
                 "bf16")
    return target


def lint(model, format, theirs, stated):
    """Lints a directory that the library wrote. `stated` returns whether a rule
    and a place are a known fault of the library."""
    found = quantd.lint(theirs)
    lines = [f"{rule}: {where}" for rule, where in found
             if not stated(rule, where)]
    return row(model, format, "lint of its own files", not lines,
               stated=len(found) - len(lines), lines=lines)


def row(model, format, check, ok, **numbers):
    made = {"model": model, "format": format, "check": check, "ok": bool(ok),
            **numbers}
    shown = "  ".join(f"{k} {v}" for k, v in numbers.items() if k != "lines")
    print(f"{'ok  ' if ok else 'FAIL'} {model:8} {format:12} {check:32} {shown}",
          flush=True)
    for line in numbers.get("lines", []):
        print(f"       {line}", flush=True)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dialect")
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("results", type=pathlib.Path)
    options = parser.parse_args()
    dialect = importlib.import_module(f"dialects.{options.dialect}")
    rows = []
    with tempfile.TemporaryDirectory(dir=options.results.parent) as folder:
        try:
            models = {path.name: path for path in options.models.iterdir()}
            rows.extend(dialect.checks(models, pathlib.Path(folder)))
        except Exception:
            traceback.print_exc()
            rows.append(row("", "", "the checks themselves", False))
    options.results.write_text(json.dumps({"checkpoints": rows}, indent=1))
    failed = sum(not r["ok"] for r in rows)
    print(f"{options.dialect}: {failed} of {len(rows)} checks failed")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    # Registers this program as the module that the dialects import, so that it
    # is not loaded twice.
    import checkpoints

    sys.exit(checkpoints.main())
