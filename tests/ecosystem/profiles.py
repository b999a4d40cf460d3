"""Compares quantd's bytes under a profile with those of the profile's library.

python profiles.py LIBRARY RESULTS.json [--device cuda] [--minilm FILE]

Covers every format of the library, every input type, and every instruction set
of this machine, and compares the decoded values, too. With --device cuda the
library computes on this machine's GPU, and quantd on the GPU and the CPU, under
the profile's "+cuda" variant if there is one. Exits with 1 if a byte differs.
"""

import argparse
import importlib
import importlib.metadata
import json
import pathlib
import sys
import tempfile

import safetensors.torch
import torch

import inputs
import quantd

TORCH_DTYPES = inputs.DTYPES
PARTS = ["codes", "scales", "global", "decoded"]


def _divisible(weights, format):
    block = quantd.BLOCK.get(format, (1, 16))
    width = 16 if format == "fp8_block_2d_e4m3" else block[1]
    return {n: w for n, w in weights.items() if w.shape[1] % width == 0}


def _profile(library, format, device):
    """Returns quantd's name of the profile for the library on a device."""
    if device == "cuda" and format in library.DIFFERS_ON_CUDA:
        return f"{library.PROFILE}+cuda"
    return library.PROFILE


class Case:
    """A format and an input type on a device or with one of its instruction sets."""

    def __init__(self, profile, format, dtype, backend):
        self.row = {
            "profile": profile, "format": format, "dtype": dtype,
            "isa": backend.name, "weights": 0,
            "compared": dict.fromkeys(PARTS, 0),
            "differing": dict.fromkeys(PARTS, 0),
            "where": {}, "replaced": [],
        }

    def add(self, name, part, mine, other):
        differing = quantd.differing(mine, other)
        self.row["compared"][part] += mine.numel() * mine.element_size()
        self.row["differing"][part] += differing
        if differing:
            self.row["where"][f"{name}: {part}"] = differing

    def add_values(self, name, mine, theirs):
        """Compares decoded values. The bits of a NaN may differ, since they
        depend on the hardware, and so may the sign of a zero, which ModelOpt's
        decoder drops."""
        mine, theirs = ((values + 0.0).masked_fill(values.isnan(), torch.nan)
                        for values in (mine, theirs))
        self.add(name, "decoded", mine, theirs)

    def add_replaced(self, name, stored, theirs, decoded):
        """Checks weights that the library spoils: quantd must write finite
        numbers, with a global scale of 1 where the library's is 0, Inf or
        NaN."""
        self.row["replaced"].append(name)
        wrong = int((~torch.isfinite(decoded.float())).sum())
        if stored is not None:
            usable = theirs.isfinite() & (theirs != 0)
            wanted = torch.where(usable, theirs, torch.ones_like(theirs))
            wrong += int(stored.item() != wanted.item())
        if wrong:
            self.row["where"][f"{name}: replacement of a spoilt weight"] = wrong
            self.row["differing"]["codes"] += wrong


def _spoilt(packed):
    """Returns whether a library wrote NaN, wrote a global scale of 0, Inf or
    NaN, or computed infinities. Some do so for weights of zeros or of denormal
    numbers."""
    if packed.overflowed:
        return True
    stored = packed.stored_global
    if stored is not None and (stored == 0 or not torch.isfinite(stored)):
        return True
    return any(part.is_floating_point() and part.float().isnan().any()
               for part in (packed.codes, packed.scales)
               if part.dtype != torch.float4_e2m1fn_x2)


def _decoded(packed):
    """Returns the library's decoded values in every type that it supports."""
    return {to: packed.decode(to) for to in packed.decodes_to}


def _quantized(library, profile, format, backend, weights, folder):
    target = folder / "out.safetensors"
    backend.run(
        "quantize", folder / "in.safetensors", "-o", target, "--format", format,
        "--profile", profile, "--scale-layout", library.SCALE_LAYOUT)
    return quantd.quantized(
        target, weights, format, library.SCALE_LAYOUT == "swizzled")


def _compare(library, case, weights, packed, values, backend, folder):
    profile, format = case.row["profile"], case.row["format"]
    mine = _quantized(library, profile, format, backend, weights, folder)
    decoded = {}
    # The replacement of a spoilt weight is checked as fp32.
    wanted = {torch.float32}.union(*values.values())
    for to, to_dtype in TORCH_DTYPES.items():
        if to_dtype not in wanted:
            continue
        path = folder / f"decoded_{to}.safetensors"
        backend.run("dequantize", folder / "out.safetensors", "-o", path,
                    "--dtype", to)
        decoded[to_dtype] = safetensors.torch.load_file(path)
    for name, theirs in packed.items():
        codes, scales, stored = mine[name]
        if name not in values:
            case.add_replaced(name, stored, theirs.stored_global,
                              decoded[torch.float32][name])
            continue
        case.row["weights"] += 1
        case.add(name, "codes", codes, theirs.codes)
        case.add(name, "scales", scales, theirs.scales)
        if theirs.stored_global is not None:
            case.add(name, "global", stored, theirs.stored_global)
        for to_dtype, value in values[name].items():
            case.add_values(name, decoded[to_dtype][name], value)
    return case.row


def _told_apart(library, format, weights, packed, values, folder):
    """Returns how many bytes of codes and scales would differ under the
    library's CPU profile, which shows that the inputs distinguish both
    profiles."""
    cpu = _quantized(library, library.PROFILE, format, quantd.Backend("cpu"),
                     weights, folder)
    return sum(quantd.differing(cpu[name][0], packed[name].codes) +
               quantd.differing(cpu[name][1], packed[name].scales)
               for name in values)


def _packed(library, weights, format, device):
    packed = library.pack({n: w.to(device) for n, w in weights.items()}, format)
    return {name: made.on_cpu() for name, made in packed.items()}


def _rows(library, options):
    backends = quantd.backends(options.device)
    for dtype in options.dtype or library.DTYPES:
        every = inputs.tensors(dtype, options.minilm)
        for format in options.format or library.FORMATS:
            packed = _packed(library, _divisible(every, format), format,
                             options.device)
            weights = {name: every[name] for name in packed}
            values = {name: _decoded(p) for name, p in packed.items()
                      if not _spoilt(p)}
            profile = _profile(library, format, options.device)
            with tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                safetensors.torch.save_file(weights, folder / "in.safetensors")
                apart = {}
                if profile != library.PROFILE:
                    apart["differing_from_cpu"] = _told_apart(
                        library, format, weights, packed, values, folder)
                for backend in backends:
                    case = Case(profile, format, dtype, backend)
                    case.row.update(apart)
                    yield _compare(library, case, weights, packed, values,
                                   backend, folder)


def _print(row):
    compared, differing = row["compared"], row["differing"]
    print(f"{row['profile']:24} {row['format']:18} {row['dtype']:5} "
          f"{row['isa']:9} " + "  ".join(
              f"{part} {differing[part]} of {compared[part]}"
              for part in PARTS if compared[part]) +
          (f"  (spoilt by the library: {len(row['replaced'])})"
           if row["replaced"] else "") +
          (f"  (bytes that the CPU profile writes differently: {row['differing_from_cpu']})"
           if "differing_from_cpu" in row else ""), flush=True)
    for place, count in row["where"].items():
        print(f"    {place}: {count}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--minilm", type=pathlib.Path)
    parser.add_argument("--format", action="append")
    parser.add_argument("--dtype", action="append")
    options = parser.parse_args()
    library = importlib.import_module(f"libraries.by_{options.library}")
    rows = []
    with torch.no_grad():
        for row in _rows(library, options):
            _print(row)
            rows.append(row)
    versions = {p: importlib.metadata.version(p) for p in library.PACKAGES}
    options.results.write_text(json.dumps(
        {"versions": versions, "profiles": rows}, indent=1))
    wrong = sum(sum(row["differing"].values()) for row in rows)
    total = sum(sum(row["compared"].values()) for row in rows)
    print(f"{library.PROFILE}: {wrong} of {total} bytes differ")
    return 1 if wrong or not total else 0


if __name__ == "__main__":
    sys.exit(main())
