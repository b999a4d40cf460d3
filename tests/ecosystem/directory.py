"""Reads a model's directory, and compares two of them."""

import json
import pathlib
from fnmatch import fnmatch

import safetensors
import safetensors.torch
import torch


def tensors(folder):
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        for name, tensor in safetensors.torch.load_file(path).items():
            if name in found:
                raise ValueError(f"{folder}: {name} is there twice")
            found[name] = tensor
    return found


def text(folder, name):
    path = pathlib.Path(folder) / name
    return json.loads(path.read_text()) if path.exists() else None


def _flat(value, path=""):
    if isinstance(value, dict) and value:
        for key in value:
            yield from _flat(value[key], f"{path}/{key}")
    elif isinstance(value, list):
        # Lists of module names have no order.
        yield path, sorted(map(json.dumps, value))
    else:
        yield path, value


def differing_json(mine, theirs):
    """Returns a line for each difference of two documents."""
    mine, theirs = dict(_flat(mine)), dict(_flat(theirs))
    nothing = "nothing"
    return [f"{key}: {mine.get(key, nothing)} here, "
            f"{theirs.get(key, nothing)} by the library"
            for key in sorted(mine.keys() | theirs.keys())
            if mine.get(key, nothing) != theirs.get(key, nothing)]


def one_list(mine, theirs):
    """Returns `mine`, a list of globs, if it matches just the modules in `theirs`, else `theirs`."""
    found = {glob: [m for m in theirs if fnmatch(m.rstrip("*"), glob)]
             for glob in mine}
    same = all(found.values()) and {*theirs} == set().union(*found.values())
    return mine if same else theirs


def differing_tensors(mine, theirs):
    """Returns lines about names, types and shapes, the number of bytes that
    differ by name, and the number of compared bytes."""
    lines = [f"{name}: only here" for name in mine.keys() - theirs.keys()]
    lines += [f"{name}: only by the library"
              for name in theirs.keys() - mine.keys()]
    differing, compared = {}, 0
    for name in mine.keys() & theirs.keys():
        a, b = mine[name], theirs[name]
        if a.dtype != b.dtype or a.shape != b.shape:
            lines.append(f"{name}: {a.dtype} {list(a.shape)} here, "
                         f"{b.dtype} {list(b.shape)} by the library")
            continue
        compared += a.numel() * a.element_size()
        a, b = (t.contiguous().flatten().view(torch.uint8) for t in (a, b))
        if count := int((a != b).sum()):
            differing[name] = count
    return sorted(lines), differing, compared


def not_nearest(mine, truth):
    """Counts bf16 values whose neighbour is nearer to the fp32 value, by more
    than the rounding of fp32."""
    truth = truth.double()
    far = (mine.double() - truth).abs()
    top = torch.tensor(torch.inf, dtype=mine.dtype)
    wrong = torch.zeros_like(far, dtype=torch.bool)
    for end in (top, -top):
        beside = torch.nextafter(mine, end.expand_as(mine)).double()
        wrong |= far > (beside - truth).abs() + truth.abs() * 2.0**-23
    return int(wrong.sum())


def differing_values(mine, theirs):
    """Counts values of two tensors whose bits differ."""
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        raise ValueError(f"{mine.dtype} {list(mine.shape)} against "
                         f"{theirs.dtype} {list(theirs.shape)}")
    size = {2: torch.int16, 4: torch.int32}[mine.element_size()]
    return int((mine.contiguous().view(size)
                != theirs.contiguous().view(size)).sum())
