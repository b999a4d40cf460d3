"""Measures torchao's compiled NVFP4 on a GPU, for comparison with sdk_bench
--gpu-memory. It quantizes rows of 1,024 bf16 in blocks of 16 with a given amax,
with and without a rotation by a Hadamard matrix of 16.

    python3 torchao_gpu.py BYTES...

Prints a line of JSON for each size, with medians of 21 synchronous calls. Needs
torch, torchao and a GPU.
"""

import json
import statistics
import sys
import time

import torch
from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize

COLUMNS = 1024
CALLS = 21


def hadamard(n: int) -> torch.Tensor:
    h = torch.ones(1, 1)
    while h.shape[0] < n:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)])
    return h / n**0.5


def median_us(call, x: torch.Tensor) -> float:
    for _ in range(3):  # compiles
        call(x)
    torch.cuda.synchronize()
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        call(x)
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)


def main() -> None:
    scale = torch.tensor(16.0 / (448 * 6), device="cuda")
    matrix = hadamard(16).to("cuda", torch.bfloat16)

    def plain(x):
        return nvfp4_quantize(x, 16, scale)

    def rotated(x):
        return plain((x.view(-1, 16) @ matrix).view(x.shape))

    for size in map(int, sys.argv[1:]):
        x = torch.randn(size // 2 // COLUMNS, COLUMNS, device="cuda").to(
            torch.bfloat16
        )
        row = {"bytes": size, "torch": torch.__version__}
        for name, call in {"plain": plain, "rht": rotated}.items():
            row[f"{name}_us"] = median_us(torch.compile(call), x)
            row[f"{name}_eager_us"] = median_us(call, x)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
