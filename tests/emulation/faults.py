#!/usr/bin/env python3
"""Plants faults into CUDA's sources and checks that the emulation finds them.

    faults.py BUILD [WORD...]

BUILD is a build folder of the preset "emulated" that contains contract_test.
With words, only faults whose names contain one of them are planted. A fault
changes one line. A source that includes this line is compiled again and linked
with the rest. Then a part of the contract that passes in run.sh must fail.
"""

import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/emulation"


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    file: str  # in kernels/cuda, like `source`
    before: str
    after: str
    source: str
    tests: str
    seed: int = 0  # of the order of threads: see threads.cc
    multiprocessors: int = 4
    stride: int = 5  # runs every stride-th combination of the contract
    arch: int = 900  # of the build folder


NVFP4 = "FormatsContract.EveryCombination/nvfp4"
MAGNITUDES = "MagnitudesContract.EveryMagnitude/"
FAULTS = [
    Fault(
        "a missing barrier",
        "encode/nvfp4/squares/squares.cuh",
        "Team::Sync();  // until the scales are complete",
        "// until the scales are complete",
        "encode/nvfp4/squares/nearest.cu",
        NVFP4 + "_2d",
        seed=1,
    ),
    Fault(
        "a copy that no thread waits for",
        "encode/nvfp4/walk.cuh",
        "Arrived<kAhead>();",
        "Arrived<kAhead + 1>();",
        "encode/nvfp4/rows.cu",
        NVFP4,
    ),
    Fault(
        "a wrong phase",
        "tile/stream.cuh",
        "WaitFor(&control_->full[full_], parity_);",
        "WaitFor(&control_->full[full_], parity_ ^ 1);",
        "encode/nvfp4/tiles.cu",
        NVFP4,
    ),
    Fault(
        "a lane that misses a phase",
        "tile/stream.cuh",
        "        __syncwarp();  // otherwise a lane might miss the short phase\n",
        "",
        "encode/nvfp4/tiles.cu",
        NVFP4,
        seed=1,
    ),
    Fault(
        "a race in shared memory",
        "encode/nvfp4/tile_lines.cuh",
        "  __syncwarp();\n",
        "",
        "encode/nvfp4/tiles.cu",
        NVFP4,
        seed=1,
    ),
    Fault(
        "a tile out of range",
        "tile/order.cuh",
        "return tile->chunk < chunks_;",
        "return true;",
        "encode/nvfp4/tiles.cu",
        NVFP4,
    ),
    Fault(
        "a wrong fragment",
        "ptx/fragments.cuh",
        '"r"(b0), "r"(b1));',
        '"r"(b1), "r"(b0));',
        "encode/nvfp4/tiles.cu",
        NVFP4,
    ),
    Fault(
        "a missing barrier of two warps",
        "encode/frame/rotated/in_place.cuh",
        "  Team::SyncPair();\n  const auto lane",
        "  const auto lane",
        "encode/frame/mx.cu",
        "FormatsContract.EveryCombination/mxfp8_e4m3",
        seed=1,
    ),
    Fault(
        "a warp that overwrites lines too soon",
        "encode/frame/rotated/in_place.cuh",
        "Team::SyncPair();  // lets the other warp reuse its lines",
        "// lets the other warp reuse its lines",
        "encode/frame/mx.cu",
        "FormatsContract.EveryCombination/mxfp8_e4m3",
        seed=1,
        multiprocessors=1,
    ),
    Fault(
        "a choice by approximate sums",
        "encode/nvfp4/four_over_six.cuh",
        "return max != 0.0f && !(fabsf(errors.four - errors.six) > doubt);",
        "return max != 0.0f && doubt < 0.0f;",
        "encode/nvfp4/four_over_six.cu",
        "NearTiesContract.*",
    ),
    Fault(
        "scale search that does not clip",
        "encode/nvfp4/four_over_six.cuh",
        "y[i] = fminf(y[i], 0x1.8p-4f);",
        "y[i] = fminf(y[i], 0x1.8p-3f);",
        "encode/frame/nvfp4.cu",
        "NearTiesContract.*",
    ),
    Fault(
        "a factor just below 1 for the neighbour of a subnormal number",
        "encode/frame/codes/others.cuh",
        "return __uint_as_float(__float_as_uint(v) - (tie ? 1u : 0u));",
        "return tie ? v * 0x1.FFFFFEp-1f : v;",
        "encode/frame/mx.cu",
        MAGNITUDES + "modelopt_0_47_mxfp4",
        stride=1,
    ),
    Fault(
        "reciprocals instead of divisions at the range's end",
        "tile/quotient.cuh",
        "return d >= 0x1p-60f && d <= 0x1p60f && max < kEnd;",
        "return d > 0.0f && max < 0x7F800000u;",
        "encode/fp8/tensor.cu",
        MAGNITUDES + "modelopt_0_47_fp8_e4m3",
        stride=1,
    ),
    Fault(
        "a count without the values that are clipped under a subnormal operand",
        "errors/run.cuh",
        "p.input != DType::kF16 || factor >= 0x1p-14f;",
        "true;",
        "errors/f16.cu",
        MAGNITUDES + "modelopt_0_47_cuda_fp8_e4m3",
        stride=1,
    ),
    Fault(
        "neighbours exchanged by a conversion to E2M1",
        "ptx/e2m1_words.cuh",
        '"cvt.rn.satfinite.e2m1x2.f32 a, %2, %1;',
        '"cvt.rn.satfinite.e2m1x2.f32 a, %1, %2;',
        "encode/nvfp4/rows.cu",
        NVFP4,
        arch=1000,
    ),
    Fault(
        "errors of the wrong four elements",
        "encode/nvfp4/nearest.cuh",
        "HalvesOfE2M1(codes >> (4 * i));",
        "HalvesOfE2M1(codes);",
        "encode/nvfp4/four_over_six.cu",
        NVFP4,
        arch=1000,
    ),
]


def output_of(command: list[str], cwd: pathlib.Path) -> str:
    return subprocess.run(
        command, cwd=cwd, check=True, capture_output=True, text=True
    ).stdout


class Builder:
    """Links contract_test with a changed object of one source."""

    def __init__(self, build: pathlib.Path, folder: pathlib.Path):
        self.build = build
        self.folder = folder
        database = output_of(["ninja", "-t", "commands", "contract_test"], build)
        self.commands = database.splitlines()

    def _compile(self, source: str, overlay: pathlib.Path) -> pathlib.Path:
        """Compiles a source with the overlay's headers to an object."""
        end = f"kernels/cuda/{source}"
        translated = self.folder / "kernel.cc"
        for command in self.commands:
            if f"{ROOT}/{end} " in command and " -E " in command:
                own = overlay / "kernels/cuda" / source
                command = command.replace(f"-I{ROOT} ", f"-I{overlay} -I{ROOT} ")
                if own.exists():
                    command = command.replace(f"{ROOT}/{end} ", f"{own} ")
                out = re.search(r"-o (\S+)\.ii", command)
                assert out, command
                command = command.replace(out.group(1), str(translated))
                subprocess.run(command, shell=True, check=True, cwd=self.build)
        for command in self.commands:
            if f"{end}.cc.o " in command and " -c " in command:
                made = self.folder / "kernel.o"
                command = re.sub(r" -o \S+", f" -o {made}", command)
                command = re.sub(r" -c \S+", f" -c {translated}", command)
                subprocess.run(command, shell=True, check=True, cwd=self.build)
                return made
        sys.exit(f"faults.py: nothing compiles {source}")

    def link(self, fault: Fault, overlay: pathlib.Path) -> pathlib.Path:
        made = self._compile(fault.source, overlay)
        link = self.commands[-1]
        archive = re.search(r"\S*libquantd_kernels\.a", link)
        assert archive, link
        # The linker prefers symbols of an object to those of a later archive.
        link = link.replace(archive.group(), f"{made} {archive.group()}")
        program = self.folder / "contract_test"
        link = link.replace("-o tests/kernels/contract_test", f"-o {program}")
        subprocess.run(link, shell=True, check=True, cwd=self.build)
        return program


def passes(program: pathlib.Path, fault: Fault) -> bool:
    environment = {
        **os.environ,
        "QUANTD_CONTRACT_STRIDE": str(fault.stride),
        "QUANTD_EMULATION_SEED": str(fault.seed),
        "QUANTD_EMULATION_MULTIPROCESSORS": str(fault.multiprocessors),
    }
    try:
        done = subprocess.run(
            [str(program), f"--gtest_filter={fault.tests}"],
            env=environment, capture_output=True, timeout=120, check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main() -> int:
    build = pathlib.Path(sys.argv[1]).resolve()
    words = sys.argv[2:]
    cache = (build / "CMakeCache.txt").read_text()
    chosen = [
        fault for fault in FAULTS
        if f"QUANTD_EMULATED_ARCH:STRING={fault.arch}\n" in cache
        and (not words or any(word in fault.name for word in words))
    ]
    assert chosen, f"no fault's name has any of {words}"
    missed = 0
    for fault in chosen:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            text = (ROOT / "kernels/cuda" / fault.file).read_text()
            assert fault.before in text, f"{fault.file}: no {fault.before!r}"
            changed = folder / "overlay/kernels/cuda" / fault.file
            changed.parent.mkdir(parents=True)
            changed.write_text(text.replace(fault.before, fault.after))
            program = Builder(build, folder).link(fault, folder / "overlay")
            found = not passes(program, fault)
        print(f"{fault.name}: {'found' if found else 'NOT FOUND'}", flush=True)
        missed += not found
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
