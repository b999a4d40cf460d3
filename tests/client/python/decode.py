"""Decodes copies as BYTES.md defines, sharing no code with the package."""

import numpy as np

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def e2m1(data):
  codes = np.stack([data & 15, data >> 4], -1).reshape(data.shape[0], -1)
  return np.where(codes & 8, -1, 1).astype(np.float32) * E2M1[codes & 7]


def fp8(bits, exponent_bits):
  """Decodes E4M3 without Inf, or E5M2."""
  bits = bits.astype(np.int64)
  if exponent_bits == 5:
    return (bits << 8).astype(np.uint16).view(np.float16).astype(np.float32)
  sign = np.where(bits & 0x80, -1.0, 1.0)
  exponent, mantissa = bits >> 3 & 15, bits & 7
  value = np.where(exponent == 0, mantissa / 8 * 2.0**-6,
                   (1 + mantissa / 8) * 2.0**(exponent - 7.0))
  value = np.where((bits & 0x7F) == 0x7F, np.nan, value)
  return (sign * value).astype(np.float32)


def e8m0(bits):
  return np.ldexp(np.float32(1), bits.astype(int) - 127).astype(np.float32)


def scales_of(t, side, f, lines, blocks):
  """Returns scales as fp32 [lines, blocks], from any layout."""
  part = t.parts[f"{side}_scale"]
  raw = part.data.view("<f4") if part.spec.dtype == "f32" else part.data
  if t.options.form.scale_layout == 2:
    l, b = np.arange(lines)[:, None], np.arange(blocks)[None, :]
    across = -(-blocks // 4)
    raw = raw[(l // 128 * across + b // 4) * 512 + l % 32 * 16 +
              l % 128 // 32 * 4 + b % 4]
  else:
    raw = raw.reshape(part.spec.shape)
    by_block = (side == "columnwise" and f.startswith("mxfp8")) or (
        f.startswith("fp8_block") and "2d" not in f)
    if by_block:
      raw = raw.T
    if "fp8_block_2d" in f:
      raw = np.repeat(raw, 128, 0)
    if t.options.form.compact_scales:
      raw = np.repeat(raw, 16, 0)
    raw = raw[:lines, :blocks]
  kind = part.spec.dtype
  return raw if kind == "f32" else fp8(raw, 4) if kind == "e4m3" else e8m0(raw)


def copy(t, side):
  """Decodes a copy that was not rotated, to fp32 [lines, positions]."""
  f = t.format
  m, k = t.matrix
  lines, positions = (m, k) if side == "rowwise" else (k, m)
  part = t.parts[f"{side}_data"]
  data = part.data.reshape(part.spec.shape)
  if part.spec.dtype == "e2m1x2":
    codes = e2m1(data)
  else:
    codes = fp8(data, 4 if part.spec.dtype == "e4m3" else 5)
    if side == "columnwise" and f.startswith("mxfp8"):
      codes = codes.T
  codes = codes[:, :positions]
  if f in ("fp8_e4m3", "fp8_e5m2"):
    return codes * t.part(f"{side}_scale")[0]
  if f == "fp8_channel_e4m3":
    return codes * t.part(f"{side}_scale")[:, None]
  block = 16 if f.startswith("nvfp4") else 128 if f.startswith("fp8") else 32
  blocks = -(-positions // block)
  scale = scales_of(t, side, f, lines, blocks)
  if f.startswith("nvfp4"):
    amax = t.part(f"{side}_amax").reshape(-1, 1)
    most = 1536 if t.options.form.scale_256 else 2688
    scale = (scale * amax) * (np.float32(1) / np.float32(most))
  return codes * np.repeat(scale, block, 1)[:, :positions]
