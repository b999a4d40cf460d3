"""Decodes written tensors with numpy alone."""

import numpy as np

E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6],
                np.float32)


def _e4m3():
    codes = np.arange(256)
    sign = np.where(codes & 128, -1.0, 1.0)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    value = np.where(exponent == 0, mantissa * 2.0 ** -9,
                     (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    value[(codes & 127) == 127] = np.nan
    return (sign * value).astype(np.float32)


E4M3 = _e4m3()


def plain(dtype, shape, data):
    """Converts stored floating-point numbers to fp32."""
    if dtype == "BF16":
        bits = np.frombuffer(data, "<u2").astype(np.uint32) << 16
        return bits.view(np.float32).reshape(shape)
    kind = {"F16": "<f2", "F32": "<f4"}[dtype]
    return np.frombuffer(data, kind).astype(np.float32).reshape(shape)


def nibbles(codes):
    """Splits bytes into two codes, the low nibble first."""
    return E2M1[np.stack([codes & 15, codes >> 4], -1)].reshape(
        *codes.shape[:-1], -1)


def nvfp4(codes, scales, divisor):
    """Decodes compressed-tensors' NVFP4."""
    shared = np.repeat(E4M3[scales], 16, axis=-1) / divisor
    return nibbles(codes) * shared


def mxfp4(blocks, scales):
    """Decodes gpt-oss's MXFP4: blocks [..., K / 32, 16] and scales [..., K / 32]."""
    values = nibbles(blocks) * np.exp2(scales.astype(np.float32) - 127)[..., None]
    return values.reshape(*values.shape[:-2], -1)


def fp8_blocks(codes, scales):
    """Decodes DeepSeek's FP8 with square blocks of 128."""
    rows, cols = codes.shape
    wide = np.repeat(np.repeat(scales, 128, 0)[:rows], 128, 1)[:, :cols]
    return E4M3[codes] * wide


def sqnr_db(original, decoded):
    """Returns the SQNR of the decoded numbers in dB."""
    noise = float(np.sum((original - decoded) ** 2))
    return 10 * np.log10(float(np.sum(original ** 2)) / max(noise, 1e-30))
