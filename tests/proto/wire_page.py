"""Implements proto/BYTES.md in numpy: offsets of codes and scales, decoding,
and rotation of blocks. Written from that page alone."""

import numpy as np

F32 = np.float32
FLT_MAX = np.finfo(F32).max


def up(a, b):
  return -(-a // b)


def roundup(a, b):
  return b * up(a, b)


def small_float(bits_of_exponent, bits_of_mantissa, nan):
  """Returns the values of the 256 codes of an 8-bit float."""
  bias = 2**(bits_of_exponent - 1) - 1
  values = np.zeros(256, F32)
  for code in range(256):
    exponent = (code & 0x7F) >> bits_of_mantissa
    fraction = (code & (2**bits_of_mantissa - 1)) / 2**bits_of_mantissa
    value = (fraction * 2.0**(1 - bias) if exponent == 0 else
             (1 + fraction) * 2.0**(exponent - bias))
    values[code] = np.nan if nan(code & 0x7F) else (
        -value if code & 0x80 else value)
  return values


E4M3 = small_float(4, 3, lambda code: code == 0x7F)
E5M2 = np.arange(256, dtype=np.uint16).__lshift__(8).view(np.float16).astype(F32)
E8M0 = np.array([2.0**(c - 127) for c in range(255)] + [np.nan], F32)
E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6],
                F32)


class Format:
  """A format, as a row of the page's tables."""

  def __init__(self, name, block, codes, scales, square=False):
    self.name, self.block, self.square = name, block, square
    self.codes = codes  # values by code
    self.scales = scales  # "e4m3", "e8m0", "line", "square", "tensor"
    self.half = codes is E2M1
    self.mx8 = scales == "e8m0" and not self.half


FORMATS = [
    Format("NVFP4", 16, E2M1, "e4m3"),
    Format("NVFP4_2D", 16, E2M1, "e4m3", square=True),
    Format("MXFP4", 32, E2M1, "e8m0"),
    Format("MXFP8_E4M3", 32, E4M3, "e8m0"),
    Format("MXFP8_E5M2", 32, E5M2, "e8m0"),
    Format("FP8_E4M3", 0, E4M3, "tensor"),
    Format("FP8_E5M2", 0, E5M2, "tensor"),
    Format("FP8_BLOCK_E4M3", 128, E4M3, "line"),
    Format("FP8_BLOCK_E5M2", 128, E5M2, "line"),
    Format("FP8_BLOCK_2D_E4M3", 128, E4M3, "square", square=True),
    Format("FP8_BLOCK_2D_E5M2", 128, E5M2, "square", square=True),
]


class Copy:
  """The offsets of codes and scales of rowwise or columnwise data of M x K."""

  def __init__(self, f, columnwise, m, k, dim=0, swizzled=False, compact=False):
    self.f, self.columnwise = f, columnwise
    self.lines, self.positions = (k, m) if columnwise else (m, k)
    self.padded = self.positions
    if f.half or dim:
      self.padded = roundup(self.positions, max(f.block, dim))
    self.blocks = up(self.padded, f.block) if f.block else 1
    self.transposed_as_it_lies = columnwise and f.mx8
    if self.transposed_as_it_lies:
      self.data_shape = [self.padded, self.lines]
    else:
      self.data_shape = [self.lines, self.padded // 2 if f.half else self.padded]
    self.swizzled, self.compact = swizzled, compact
    self.by_block = f.scales == "line" or (self.transposed_as_it_lies and
                                           not swizzled)
    lines, blocks = roundup(self.lines, 128), roundup(self.blocks, 4)
    self.scale_lines = 1  # lines that share a scale
    if f.scales == "tensor":
      self.scale_shape = [1]
    elif f.scales == "line":
      self.scale_shape = [self.blocks, roundup(self.lines, 4)]
    elif f.scales == "square":
      self.scale_shape = [up(self.lines, 128), blocks]
      self.scale_lines = 128
    elif compact:
      self.scale_shape = [up(self.lines, 16), self.blocks]
      self.scale_lines = 16
    else:
      self.scale_shape = [blocks, lines] if self.by_block else [lines, blocks]

  def values(self, data):
    """Returns the values of the codes, as lines x padded."""
    codes = np.frombuffer(data, np.uint8).reshape(self.data_shape)
    if self.f.half:
      codes = np.stack([codes & 15, codes >> 4], -1).reshape(self.lines, -1)
    if self.transposed_as_it_lies:
      codes = codes.T
    return self.f.codes[codes]

  def entries(self, scale):
    """Returns the scales as stored, without padding."""
    stored = np.frombuffer(
        scale, np.uint8 if self.f.scales in ("e4m3", "e8m0") else "<u4")
    if self.f.scales == "tensor":
      return stored.reshape(1, 1)
    rows = up(self.lines, self.scale_lines)
    if self.swizzled:
      l, b = np.ix_(np.arange(rows), np.arange(self.blocks))
      return stored[(l // 128 * up(self.blocks, 4) + b // 4) * 512 +
                    l % 32 * 16 + l % 128 // 32 * 4 + b % 4]
    stored = stored.reshape(self.scale_shape)
    if self.by_block:
      stored = stored.T
    return stored[:rows, :self.blocks]

  def scales_of(self, scale):
    """Returns the scale of every code, as lines x padded, or a single one for the tensor."""
    entries = self.entries(scale)
    table = {"e4m3": E4M3, "e8m0": E8M0}.get(self.f.scales)
    scales = entries.view("<f4") if table is None else table[entries]
    scales = np.repeat(scales, self.scale_lines, 0)
    scales = np.repeat(scales, self.f.block or self.padded, 1)
    if len(scales) > 1:
      scales = scales[:self.lines]
    return scales[:, :self.padded]

  def decode_under(self, library, data, scale, g, rounded):
    """Decodes data of a bf16 tensor under a profile, rounded to the output type."""
    if library == "COMPRESSED" and self.f.scales in ("tensor", "square"):
      scale = np.frombuffer(scale, "<u2").astype("<u4") << 16
    if library == "COMFY":
      codes = np.frombuffer(data, np.uint8)
      data = (codes << 4 | codes >> 4).tobytes()
    s = self.scales_of(scale)
    if self.f.scales == "e4m3":
      factor = (s / g if library == "COMPRESSED" else
                rounded(s * rounded(g)) if library == "COMFY" else s * g)
    else:
      of_output = library == ("TORCHAO" if self.f.scales == "e8m0" else
                              "MODELOPT")
      factor = rounded(s) if of_output else s
    return rounded(self.values(data) * factor)

  def decode(self, data, scale, amax, f6=2688):
    """Decodes to the operand that the data represent, as lines x padded."""
    scales = self.scales_of(scale)
    if self.f.scales != "e4m3":
      return scales * self.values(data)
    amax = np.frombuffer(amax, "<f4").reshape(-1, 1)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
      least = F32(f6) / FLT_MAX
      used = np.where((amax > 0) & (amax < least), least, amax)
      factor = (scales * used) * (F32(1) / F32(f6))
      s = F32(f6) / amax
      s = np.where(s == 0, F32(1), s)
      factor = np.where(amax > FLT_MAX / F32(448), scales * (F32(1) / s),
                        factor)
    return self.values(data) * factor


def signs_of(mask, n):
  return np.array([-1 if mask[i // 8] >> i % 8 & 1 else 1 for i in range(n)],
                  F32)


def butterflies(t, n):
  stride = 1
  while stride < n:
    pairs = t.reshape(-1, n // (2 * stride), 2, stride)
    a, b = pairs[:, :, 0].copy(), pairs[:, :, 1].copy()
    pairs[:, :, 0], pairs[:, :, 1] = a + b, a - b
    stride *= 2
  return t


def rotate(x, n, mask):
  """Rotates blocks of n along the last axis."""
  t = x.reshape(-1, n) * (signs_of(mask, n) * F32(n**-0.5)) + F32(0)
  return butterflies(t, n).reshape(x.shape)


def rotate_back(y, n, mask):
  t = butterflies(y.reshape(-1, n) * F32(n**-0.5) + F32(0), n)
  return (t * signs_of(mask, n) + F32(0)).reshape(y.shape)


def bf16(x):
  """Rounds to bf16, ties to even, and returns fp32."""
  bits = np.ascontiguousarray(x, F32).view(np.uint32)
  return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(F32)
