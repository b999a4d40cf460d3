"""Quantizes with compressed-tensors 0.20 without Triton: on a GPU, by its eager
path."""

import compressed_tensors.utils.triton

from libraries.by_compressed_tensors import (
    DTYPES,
    FORMATS,
    PACKAGES,
    PROFILE,
    SCALE_LAYOUT,
    pack,
)

__all__ = ["DTYPES", "FORMATS", "PACKAGES", "PROFILE", "SCALE_LAYOUT", "pack"]
compressed_tensors.utils.triton.HAS_TRITON = False
# No format differs on CUDA, since the eager path rounds twice, as on a CPU.
DIFFERS_ON_CUDA = []
