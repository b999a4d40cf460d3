"""What a library makes of a weight."""

import dataclasses
from typing import Callable

import torch


@dataclasses.dataclass
class Packed:
    codes: torch.Tensor
    scales: torch.Tensor
    # Of NVFP4: the multiplier or divisor that is stored for the tensor.
    stored_global: torch.Tensor | None
    # The library's own decoder of that, to a type.
    decode: Callable[[torch.dtype], torch.Tensor]
    # The types that it decodes to.
    decodes_to: tuple = (torch.bfloat16, torch.float16, torch.float32)
    # Set where the library's own arithmetic made infinities on its way.
    overflowed: bool = False
