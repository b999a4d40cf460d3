"""A weight that a library quantized."""

import dataclasses
from typing import Callable

import torch


@dataclasses.dataclass
class Packed:
    codes: torch.Tensor
    scales: torch.Tensor
    # For NVFP4: the multiplier or divisor that is stored for the tensor.
    stored_global: torch.Tensor | None
    # The library's own decoder of this weight, to a given type.
    decode: Callable[[torch.dtype], torch.Tensor]
    # The types to which it decodes.
    decodes_to: tuple = (torch.bfloat16, torch.float16, torch.float32)
    # Set if the library's own arithmetic produced infinities in between.
    overflowed: bool = False

    def on_cpu(self):
        """Returns a copy in host memory for comparison. The library decodes on
        the original device."""
        stored = self.stored_global
        return dataclasses.replace(
            self,
            codes=_on_cpu(self.codes),
            scales=_on_cpu(self.scales),
            stored_global=None if stored is None else _on_cpu(stored),
            decode=lambda dtype: self.decode(dtype).cpu(),
        )


def _on_cpu(tensor):
    """Copies to the CPU as bytes, since PyTorch does not copy pairs of E2M1 between devices."""
    if tensor.dtype == torch.float4_e2m1fn_x2:
        tensor = tensor.view(torch.uint8)
    return tensor.detach().cpu()
