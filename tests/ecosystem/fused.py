"""Checks groups that quantd fuses and a library does not: q, k and v, or gate
and up, share one scale in quantd's files, as engines that join them require.
The bytes still equal the library's for the joined weight."""

import re

import torch

import directory

GROUPS = ["q_proj|k_proj|v_proj", "gate_proj|up_proj", "query|key|value"]


def group_of(module):
    """Returns a key that the members of a group share, or None outside groups."""
    for names in GROUPS:
        found = re.fullmatch(rf"(.*\.)({names})", module)
        if found:
            return found[1] + names
    return None


def _members(source):
    groups = {}
    for name, weight in directory.tensors(source).items():
        module = name.removesuffix(".weight")
        key = group_of(module)
        if key and name.endswith(".weight"):
            groups.setdefault(key, []).append((module, weight))
    return groups


def differing(source, mine, pack, only=lambda module: True):
    """Quantizes the joined weights of each group with `pack`, the library.
    Returns how many bytes of `mine` differ from that, and how many were compared."""
    tensors = directory.tensors(mine)
    groups = {key: members for key, members in _members(source).items()
              if only(members[0][0])}
    joined = {key: torch.cat([w for _, w in members])
              for key, members in groups.items()}
    wrong = compared = 0
    for key, packed in pack(joined).items():
        row = 0
        for module, weight in groups[key]:
            rows = slice(row, row + weight.shape[0])
            row += weight.shape[0]
            codes = tensors.get(f"{module}.weight_packed",
                                tensors.get(f"{module}.weight"))
            scales = tensors[f"{module}.weight_scale"]
            # Swizzled scales are in tiles of 128 rows, and so are these groups.
            pairs = [(codes, packed.codes[rows]),
                     (scales, packed.scales[rows] if scales.dim() == 2
                      else packed.scales)]
            for name in ("weight_global_scale", "weight_scale_2"):
                if f"{module}.{name}" in tensors:
                    pairs.append((tensors[f"{module}.{name}"],
                                  packed.stored_global))
            for ours, theirs in pairs:
                ours, theirs = (
                    t.contiguous().flatten().view(torch.uint8)
                    for t in (ours, theirs))
                compared += ours.numel()
                wrong += int((ours != theirs).sum())
    return wrong, compared
