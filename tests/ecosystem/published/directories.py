"""Writes directories of models: headers followed by holes, or small numbers."""

import json
import struct

import numpy as np


def header_of(tensors):
    """Returns the header of a safetensors file."""
    at = 0
    header = {"__metadata__": {"format": "pt"}}
    for t in tensors:
        header[t.name] = {"dtype": t.dtype, "shape": list(t.shape),
                          "data_offsets": [at, at + t.size]}
        at += t.size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, at


def spread(tensors, shards, stem):
    """Distributes tensors among files."""
    if shards == 0:
        return {f"{stem}.safetensors": tensors}
    each = -(-len(tensors) // shards)
    return {f"{stem}-{i + 1:05}-of-{shards:05}.safetensors":
            tensors[i * each:(i + 1) * each] for i in range(shards)}


def write(folder, tensors, config, shards=0, stem="model", values=None,
          others=None):
    """Writes a directory or, without `config`, a single file, with holes if `values` is missing."""
    folder.mkdir(parents=True)
    files = spread(tensors, shards, stem)
    for name, some in files.items():
        header, size = header_of(some)
        with open(folder / name, "wb") as file:
            file.write(header)
            if values is None:
                file.truncate(len(header) + size)
            else:
                for t in some:
                    file.write(values[t.name].tobytes())
    if shards:
        index = {"metadata": {"total_size": sum(t.size for t in tensors)},
                 "weight_map": {t.name: name for name, some in files.items()
                                for t in some}}
        (folder / f"{stem}.safetensors.index.json").write_text(
            json.dumps(index))
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config, indent=2))
    for name, text in (others or {}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def to_bf16(values):
    """Returns the bits of the nearest bf16 numbers, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def numbers_for(tensors, seed):
    """Returns the stored values of every tensor of a small copy."""
    random = np.random.default_rng(seed)
    values = {}
    for t in tensors:
        if t.dtype in ("BF16", "F16", "F32"):
            plain = random.normal(0, 0.02, t.shape).astype(np.float32)
            values[t.name] = (to_bf16(plain) if t.dtype == "BF16" else
                              plain.astype({"F16": "<f2", "F32": "<f4"}[t.dtype]))
        elif t.dtype == "F8_E4M3":
            # Codes without NaN and without negative zero.
            values[t.name] = random.integers(1, 127, t.shape).astype(np.uint8)
        elif t.name.endswith("_scales"):
            values[t.name] = random.integers(110, 130, t.shape).astype(np.uint8)
        else:
            width = {"U8": np.uint8, "I32": np.int32, "I64": np.int64}[t.dtype]
            values[t.name] = random.integers(0, 127, t.shape).astype(width)
    return values


def read(folder):
    """Returns type, shape, bytes and file of every tensor in a directory."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        length, = struct.unpack("<Q", data[:8])
        for name, t in json.loads(data[8:8 + length]).items():
            if name == "__metadata__":
                continue
            first, last = t["data_offsets"]
            found[name] = (t["dtype"], tuple(t["shape"]),
                           data[8 + length + first:8 + length + last], path.name)
    return found
