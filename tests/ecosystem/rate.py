"""Compares the time of quantctl convert with llm-compressor's model_free_ptq
and with quantctl quantize, alternating on one model.

python rate.py MODEL RESULTS.json

The time excludes the library's imports, but includes the start of quantctl's process.
"""

import contextlib
import io
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

from llmcompressor.entrypoints.model_free import model_free_ptq
from loguru import logger

import quantd
from dialects.compressed_tensors import NOT_LINEAR

logger.remove()
ROUNDS = 5
IGNORED = ["lm_head", "re:.*pooler.*", *NOT_LINEAR]


def _by_the_library(source, target):
    with contextlib.redirect_stderr(io.StringIO()):
        model_free_ptq(source, target, scheme="NVFP4A16", ignore=IGNORED,
                       device="cpu", max_workers=os.cpu_count())


def _convert(source, target):
    quantd.local("convert", source, target)


def _quantize(source, target):
    target.mkdir()
    for shard in source.glob("*.safetensors"):
        quantd.local("quantize", shard, "-o", target / shard.name,
                     "--profile", "compressed-tensors@0.20")


def main(source, results):
    ways = {"model_free_ptq": _by_the_library, "convert": _convert,
            "quantize": _quantize}
    seconds = {name: [] for name in ways}
    with tempfile.TemporaryDirectory(dir=results.parent) as folder:
        target = pathlib.Path(folder) / "made"
        for _ in range(ROUNDS):
            for name, way in ways.items():
                begin = time.monotonic()
                way(source, target)
                seconds[name].append(time.monotonic() - begin)
                shutil.rmtree(target)
    medians = {name: statistics.median(s) for name, s in seconds.items()}
    rate = {
        "model": source.name,
        "bytes": sum(p.stat().st_size for p in source.glob("*.safetensors")),
        "seconds": {n: round(s, 3) for n, s in medians.items()},
        "times_model_free_ptq": round(
            medians["model_free_ptq"] / medians["convert"], 1),
        "load_average": round(os.getloadavg()[0], 1),
        "rounds": ROUNDS,
    }
    print(rate)
    results.write_text(json.dumps({"rate": rate}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(pathlib.Path, sys.argv[1:])))
