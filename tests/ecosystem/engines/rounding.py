"""NVFP4 activations in numpy: a scale for each block of 16 elements, found at
run time, and a scale for the tensor, which follows from its largest input."""

import numpy
import torch


def _e4m3(values):
    """Rounds non-negative values to the nearest E4M3 value, ties to even."""
    step = numpy.exp2(numpy.maximum(numpy.floor(numpy.log2(
        numpy.maximum(values, 2.0 ** -9))), -6) - 3)
    return numpy.minimum(numpy.rint(values / step) * step, 448)


def _e2m1(values):
    """Rounds to the nearest E2M1 value, ties to even."""
    size = numpy.abs(values)
    step = numpy.where(size < 2, 0.5, numpy.where(size < 4, 1, 2))
    return numpy.sign(values) * numpy.minimum(numpy.rint(size / step) * step, 6)


def nvfp4(x, amax):
    """Returns a tensor, quantized and decoded."""
    blocks = x.float().numpy().reshape(-1, 16)
    tensor = numpy.float32(2688 / amax)
    scales = _e4m3(numpy.abs(blocks).max(1, keepdims=True) / 6 * tensor) / tensor
    scales = scales.astype(numpy.float32)
    codes = _e2m1(numpy.divide(blocks, scales, where=scales > 0,
                               out=numpy.zeros_like(blocks)))
    return torch.from_numpy(codes * scales).reshape(x.shape).to(x.dtype)
