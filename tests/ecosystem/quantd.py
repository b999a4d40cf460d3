"""Runs quantctl like a user, and reads its files."""

import json
import os
import subprocess
from typing import NamedTuple

import safetensors.torch
import torch

BLOCK = {"nvfp4": (1, 16), "mxfp8_e4m3": (1, 32), "mxfp4": (1, 32),
         "fp8_block_2d_e4m3": (128, 128)}


def run(*arguments, isa=None):
    """Returns the standard output of a command, which must succeed."""
    environment = dict(os.environ)
    if isa:
        environment["QUANTD_CPU_ISA"] = isa
    done = subprocess.run(
        [os.environ["QUANTCTL"], *map(str, arguments)], env=environment,
        capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"quantctl {arguments}: {done.stderr or done.stdout}")
    return done.stdout


def lint(folder):
    """Returns the findings of `quantctl lint` in a directory: rules with places."""
    done = subprocess.run(
        [os.environ["QUANTCTL"], "lint", folder, "--json"],
        capture_output=True, text=True)
    if done.returncode not in (0, 8):
        raise RuntimeError(f"quantctl lint {folder}: {done.stderr}")
    return [(found["rule"], found["where"])
            for found in json.loads(done.stdout)["findings"]]


class Backend(NamedTuple):
    """A device of this machine. For a CPU, `isa` is an instruction set, or None
    for quantctl's choice."""

    name: str
    server: str = "local:cpu"
    isa: str | None = None

    def run(self, *arguments):
        return run(*arguments, "--server", self.server, "--deadline", 600,
                   isa=self.isa)


def local(*arguments, isa=None):
    return Backend("cpu", isa=isa).run(*arguments)


def backends(device):
    """Returns the backends whose bytes are compared with a library's on a device."""
    if device == "cpu":
        return [Backend(isa, isa=isa) for isa in instruction_sets()]
    return [Backend("cuda", "local:cuda:0"), Backend("cpu")]


def instruction_sets():
    """Returns this machine's instruction sets, which quantctl lists in its error for a wrong one."""
    try:
        local("info", isa="none")
    except RuntimeError as refusal:
        listed = str(refusal).split("this machine has (")[1].split(")")[0]
        return listed.split(", ")
    raise RuntimeError("quantctl accepted an unknown instruction set")


def quantized(path, weights, format, swizzled):
    """Returns codes, scales without padding, and the stored global scale, by name."""
    parts = safetensors.torch.load_file(path)
    found = {}
    for name, weight in weights.items():
        scales = parts[f"{name}.rowwise_scale"]
        if format in BLOCK and not swizzled:
            rows, columns = (-(-size // block) for size, block
                             in zip(weight.shape, BLOCK[format]))
            scales = scales[:rows, :columns]
        stored = parts.get(f"{name}.rowwise_global_scale")
        if stored is None:
            stored = parts.get(f"{name}.rowwise_global_divisor")
        found[name] = (parts[f"{name}.rowwise_data"], scales, stored)
    return found


def differing(mine, other):
    """Counts the bytes in which `mine` and `other` differ. Both must have the
    same type and size."""
    mine, other = (t.contiguous().flatten() for t in (mine, other))
    if mine.element_size() != other.element_size():
        raise ValueError(f"{mine.dtype} against {other.dtype}")
    if mine.numel() != other.numel():
        raise ValueError(f"{mine.numel()} against {other.numel()} elements")
    return int((mine.view(torch.uint8) != other.view(torch.uint8)).sum())
