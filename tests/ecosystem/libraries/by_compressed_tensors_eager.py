"""compressed-tensors 0.20 where Triton is not to be had: on a GPU, its own eager
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
# Both of its roundings, as on a CPU.
DIFFERS_ON_CUDA = []
