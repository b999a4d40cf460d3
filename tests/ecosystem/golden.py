"""Adds a library's test vectors to tests/golden/libraries.json, with which
devices and the oracle are tested without the library.

python golden.py LIBRARY libraries.json
"""

import importlib
import json
import pathlib
import sys

import torch

import inputs

ROWS, COLUMNS = 4, 64
WHAT = (
    "Bytes that libraries write for a weight on a CPU, and what their own "
    "decoders make of them, written by tests/ecosystem/golden.py: torch 2.13.0 "
    "with compressed-tensors 0.20.0, nvidia-modelopt 0.47.0, torchao 0.18.0 and "
    "comfy-kitchen 0.2.40. Hex, little endian, scales linear and without "
    "padding. Zeros are decoded to +0, NaN is 7fc00000, 7e00 or 7fc0.")
CANONICAL = {torch.float32: 0x7FC00000, torch.float16: 0x7E00,
             torch.bfloat16: 0x7FC0}


def _hex(tensor):
    return bytes(tensor.contiguous().flatten().view(torch.uint8)
                 .tolist()).hex()


def _weight(dtype):
    """Returns rows of ordinary numbers, of ties, of very different magnitudes
    and of the smallest numbers, and blocks of zeros of both signs."""
    generator = torch.Generator().manual_seed(4)
    ordinary = torch.randn((1, COLUMNS), generator=generator)
    steps = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6])
    ties = steps[torch.randint(8, (1, COLUMNS), generator=generator)] / 8
    far = ordinary.flip(1) * 2.0 ** torch.randint(
        -12, 9, (1, COLUMNS), generator=generator)
    least = ordinary * torch.finfo(dtype).smallest_normal
    rows = torch.cat([ordinary, ties, far, least])
    rows[1, 32:48] = 0
    rows[1, 40:44] = -0.0
    return rows.to(dtype)


def _decoded(packed, dtype):
    values = packed.decode(dtype) + 0.0
    size = {2: torch.int16, 4: torch.int32}[values.element_size()]
    bits = torch.tensor(CANONICAL[dtype]).to(size)
    return _hex(torch.where(values.isnan(), bits, values.view(size)))


def _linear(library, scales):
    if library.SCALE_LAYOUT == "linear":
        return scales
    from comfy_kitchen import from_blocked

    return from_blocked(scales, ROWS, COLUMNS // 16)


def _vectors(library, dtype):
    weight = _weight(inputs.DTYPES[dtype])
    for format in library.FORMATS:
        packed = library.pack({"w": weight}, format)["w"]
        vector = {"profile": library.PROFILE, "format": format,
                  "codes": _hex(packed.codes),
                  "scales": _hex(_linear(library, packed.scales))}
        if packed.stored_global is not None:
            vector["global"] = _hex(packed.stored_global)
        vector["decoded"] = {
            name: _decoded(packed, to) for name, to in inputs.DTYPES.items()
            if to in packed.decodes_to}
        yield vector


def main(name, path):
    library = importlib.import_module(f"libraries.by_{name}")
    page = {"what": WHAT, "cases": []}
    if path.exists():
        page["cases"] = json.loads(path.read_text())["cases"]
    for dtype in library.DTYPES:
        cases = [c for c in page["cases"] if c["dtype"] == dtype]
        if not cases:
            cases = [{"dtype": dtype, "rows": ROWS, "cols": COLUMNS,
                      "x": _hex(_weight(inputs.DTYPES[dtype])), "vectors": []}]
            page["cases"] += cases
        kept = [v for v in cases[0]["vectors"]
                if v["profile"] != library.PROFILE]
        with torch.no_grad():
            cases[0]["vectors"] = sorted(
                kept + list(_vectors(library, dtype)),
                key=lambda v: (v["profile"], v["format"]))
    page["cases"].sort(key=lambda c: c["dtype"])
    text = json.dumps(page, separators=(",", ":"))
    path.write_text(text.replace('{"', '\n{"').lstrip() + "\n")


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
