"""What a library makes of a weight."""

import dataclasses
from typing import Callable

import torch


@dataclasses.dataclass
class Packed:
    codes: torch.Tensor
    scales: torch.Tensor
    # For NVFP4: the multiplier or divisor that is stored for the tensor.
    stored_global: torch.Tensor | None
    # The library's own decoder of that, to a type.
    decode: Callable[[torch.dtype], torch.Tensor]
    # The types that it decodes to.
    decodes_to: tuple = (torch.bfloat16, torch.float16, torch.float32)
    # Set where the library's own arithmetic made infinities on its way.
    overflowed: bool = False

    def on_cpu(self):
        """The same, where this process compares it; the library decodes where
        it packed."""
        stored = self.stored_global
        return dataclasses.replace(
            self,
            codes=_on_cpu(self.codes),
            scales=_on_cpu(self.scales),
            stored_global=None if stored is None else _on_cpu(stored),
            decode=lambda dtype: self.decode(dtype).cpu(),
        )


def _on_cpu(tensor):
    """PyTorch copies no pairs of E2M1 from one device to another."""
    if tensor.dtype == torch.float4_e2m1fn_x2:
        tensor = tensor.view(torch.uint8)
    return tensor.detach().cpu()
