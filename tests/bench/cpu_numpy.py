#!/usr/bin/env python3
"""Compares the CPU backend with the same arithmetic in vectorized numpy.

Measures NVFP4 with RHT, FP8 E4M3 with tensor scaling and MXFP8 E4M3, rowwise
from bf16, as kernels/plan/FORMATS.md defines them. cpu_bench writes its input
and the backend's codes and scales, and numpy must compute the same bytes before
either is timed. numpy uses one thread, as it always does for this arithmetic,
and works on pieces that fit into the cache, of the fastest size tried.

    cpu_numpy.py [--cpu-bench build/cpu/tests/bench/cpu_bench] [--mib 256]
                 [--runs 5] [--threads 1,0] [--json FILE] [--host NAME]
                 [--commit ID] [--date DATE]

Needs Debian's python3-numpy.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

F32 = np.float32
U32 = np.uint32
COLS = 4096
AMAX = F32(5)  # given, as in cpu_bench
SIGN_MASK = 0xD7E8
PIECES = (1 << 14, 1 << 16, 1 << 18)  # elements


def bits(x):
    return x.view(U32)


def floats(u):
    return u.view(F32)


def from_bf16(x):
    return floats(x.astype(U32) << U32(16))


def round_to_bf16(x):
    u = bits(x)
    return floats((u + U32(0x7FFF) + ((u >> U32(16)) & U32(1))) & U32(0xFFFF0000))


def e4m3(x):
    """Returns the codes of x, rounded to nearest and saturated. x has no NaN."""
    magnitude = np.minimum(np.abs(x), F32(448))
    # An addition rounds to the step of the binade, which is at least 2^-9.
    binade = floats(bits(np.maximum(magnitude, F32(2**-6))) & U32(0x7F800000))
    step = binade * F32(2**20)
    rounded = (magnitude + step) - step
    u = bits(rounded)
    normal = (u >> U32(20)) - U32(120 << 3)
    tiny = (rounded * F32(512)).astype(U32)
    code = np.where(rounded < F32(2**-6), tiny, normal)
    return (code | ((bits(x) >> U32(24)) & U32(0x80))).astype(np.uint8)


def decode_e4m3(code):
    return floats(code.astype(U32) << U32(20)) * F32(2.0**120)


def e2m1(x):
    """Returns the codes of x in the low four bits, rounded to nearest and saturated. x has no NaN."""
    magnitude = np.minimum(np.abs(x), F32(6))
    binade = floats(bits(np.maximum(magnitude, F32(1))) & U32(0x7F800000))
    step = binade * F32(2**22)
    rounded = (magnitude + step) - step
    large = (bits(rounded) >> U32(22)) - U32(252)
    code = np.where(rounded < F32(1), (rounded * F32(2)).astype(U32), large)
    return (code | ((bits(x) >> U32(28)) & U32(8))).astype(np.uint8)


def rotate(x):
    """Rotates columns of 16 elements, so that numpy's loops are long."""
    signs = [F32(-0.25 if SIGN_MASK >> i & 1 else 0.25) for i in range(16)]
    # fmaf(x, s, +0) equals a product and an addition here, because a quarter of
    # a normal bf16 number is exact.
    t = x * np.array(signs, F32)[:, None] + F32(0)
    for stride in (1, 2, 4, 8):
        t = t.reshape(8 // stride, 2, stride, -1)
        t = np.stack((t[:, 0] + t[:, 1], t[:, 0] - t[:, 1]), axis=1)
    return t.reshape(16, -1)


def nvfp4_row_rht(x):
    columns = np.ascontiguousarray(x.reshape(-1, 16).T)
    v = round_to_bf16(rotate(from_bf16(columns)))
    s = F32(2688) / AMAX
    block = np.abs(v).max(axis=0)
    scale = e4m3(block * (s * F32(1 / 6)))
    with np.errstate(divide="ignore"):
        m = F32(1) / (decode_e4m3(scale) * (F32(1) / s))
    m = np.minimum(m, np.finfo(F32).max)
    code = e2m1(v * m)
    return (code[0::2] | code[1::2] << np.uint8(4)).T, scale


def fp8_e4m3_row(x):
    return e4m3(from_bf16(x) * (F32(448) / AMAX)), None


def mxfp8_row(x):
    v = from_bf16(x).reshape(-1, 32)
    u = bits(np.abs(v).max(axis=1) * F32(1 / 448))
    exponent, fraction = u >> U32(23), u & U32(0x7FFFFF)
    stay = (fraction == 0) | (exponent == 254)
    stay |= (exponent == 0) & (fraction <= 0x400000)
    scale = np.where(stay, exponent, exponent + U32(1))
    m = floats(np.where(scale == 254, U32(0x400000), (U32(254) - scale) << U32(23)))
    return e4m3(v * m[:, None]), scale.astype(np.uint8)


CASES = {f.__name__: f for f in (nvfp4_row_rht, fp8_e4m3_row, mxfp8_row)}


def in_pieces(case, x, piece):
    parts = [case(x[at : at + piece]) for at in range(0, x.size, piece)]
    codes = np.concatenate([codes.reshape(-1) for codes, _ in parts])
    if parts[0][1] is None:
        return codes, None
    return codes, np.concatenate([scale for _, scale in parts])


def check(name, x, folder):
    codes, scale = in_pieces(CASES[name], x, PIECES[0])
    for part, mine in (("data", codes), ("scale", scale)):
        if mine is None:
            continue
        theirs = np.fromfile(folder / f"{name}.rowwise_{part}", np.uint8)
        if mine.tobytes() != theirs.tobytes():
            sys.exit(f"{name}: bytes differ in {part}")


def seconds(name, x, runs):
    """Returns the median time with the best piece size."""
    best = float("inf")
    for piece in PIECES:
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            for at in range(0, x.size, piece):
                CASES[name](x[at : at + piece])
            times.append(time.perf_counter() - start)
        best = min(best, statistics.median(times))
    return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu-bench", default="build/cpu/tests/bench/cpu_bench")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", default="1,0", help="threads of cpu_bench")
    parser.add_argument("--json", help="file for the results")
    parser.add_argument("--host", default="", help="name of this machine, for the results")
    parser.add_argument("--commit", default="", help="commit of the build, for the results")
    parser.add_argument("--date", default="", help="date, for the results")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        subprocess.run(
            [args.cpu_bench, f"--mib={args.mib}", f"--runs={args.runs}",
             "--isa=best", f"--threads={args.threads}",
             f"--only={','.join(CASES)}", f"--dump={folder}",
             f"--json={folder}/bench.json"],
            check=True,
        )
        bench = json.loads((folder / "bench.json").read_text())
        x = np.fromfile(folder / "input", np.uint16)
        rows = []
        for name in CASES:
            check(name, x, folder)
            # Uses a part of the input, since numpy's rate does not depend on
            # the size.
            part = x[: min(x.size, 1 << 24)]
            rate = part.nbytes * 1e-9 / seconds(name, part, args.runs)
            for row in bench["rows"]:
                if row["name"] != name:
                    continue
                times = row["gbps"] / rate
                print(f"{name}: same bytes; numpy {rate:.3f} GB/s, "
                      f"{row['threads']} threads {row['gbps']:.2f}: "
                      f"{times:.0f} times")
                rows.append({"name": name, "numpy_gbps": rate, "times": times,
                             "gbps": row["gbps"], "threads": row["threads"],
                             "isa": row["isa"]})
    if args.json:
        pathlib.Path(args.json).write_text(
            json.dumps({"device": args.host, "commit": args.commit,
                        "date": args.date, "input_mib": args.mib,
                        "runs": args.runs, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
