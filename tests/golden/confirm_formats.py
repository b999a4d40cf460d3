#!/usr/bin/env python3
"""Confirms formats.json with independent arithmetic.

Every code and scale of formats.json was derived by hand from the formulas.
This script computes them again with numpy's float32 and the conversions of
ml_dtypes (float8_e4m3fn, float8_e5m2, float4_e2m1fn, float8_e8m0fnu), for
bf16 input, and compares data, scales, maxima, decoded values and histories.

    pip install numpy ml_dtypes && python3 confirm_formats.py

Last run: 26 vectors confirmed, with ml_dtypes 0.6.0 and numpy 2.4.6.
"""

import json
import pathlib

import ml_dtypes
import numpy as np

F32 = np.float32
E4M3, E5M2, E2M1 = (
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float4_e2m1fn,
)
LARGEST = {E4M3: F32(448), E5M2: F32(57344), E2M1: F32(6)}
EXPONENT = {E4M3: 8, E5M2: 15, E2M1: 2}
FRACTION = {E4M3: 3, E5M2: 2, E2M1: 1}
# Element type, block along a line (None: the tensor), whether it is square.
FORMATS = {
    3: (E4M3, None, False),
    4: (E5M2, None, False),
    5: (E4M3, 32, False),
    6: (E5M2, 32, False),
    7: (E2M1, 32, False),
    8: (E4M3, 128, False),
    9: (E5M2, 128, False),
    10: (E4M3, 128, True),
    11: (E5M2, 128, True),
}
MX = (5, 6, 7)


def words(text, parse):
    """'a b*3' is a b b b."""
    out = []
    for token in text.split():
        value, _, count = token.partition("*")
        out += [parse(value)] * int(count or 1)
    return out


def hexes(text):
    return words(text, lambda t: int(t, 16))


def floats(text):
    return np.array(words(text, float), F32)


def encode(v, dtype):
    """Encodes v with saturation, without which ml_dtypes encodes too large values as NaN or Inf."""
    top = LARGEST[dtype]
    codes = np.clip(v, -top, top).astype(dtype).view(np.uint8)
    return np.where(np.isnan(v), 0x7F if dtype is not E2M1 else 7, codes)


def decode(codes, dtype):
    return np.asarray(codes, np.uint8).view(dtype).astype(F32)


def tensor_scale(case, amax, dtype, pow2, largest):
    amax = max(amax, F32(case.get("epsilon", 0)))
    if amax == 0 or not np.isfinite(amax):
        return F32(1)
    scale = LARGEST[dtype] / amax
    if np.isinf(scale):
        scale = largest
    if case.get("power_of_two", pow2):
        scale = np.exp2(np.floor(np.log2(np.float64(scale)))).astype(F32)
    return scale


def mx_scale(case, amax, dtype):
    """The shared exponent, computed by ml_dtypes if it has that rounding."""
    if np.isnan(amax):
        return 0xFF
    if np.isinf(amax):
        return 0xFE
    rule = case.get("rule", "up")
    if rule == "up":
        v = amax * (F32(1) / LARGEST[dtype])
        if v == 0:
            return 0
        down = np.exp2(np.floor(np.log2(np.float64(v))))
        power = down if down == v else 2 * down
        return int(np.float64(power).astype(ml_dtypes.float8_e8m0fnu).view(np.uint8))
    if rule == "floor":
        exponent = np.floor(np.log2(np.float64(amax)))
    elif rule == "ceil":
        exponent = np.ceil(np.log2(np.float64(amax)))
    else:  # adds half of the last kept bit of the fraction, which may carry
        exponent = np.floor(np.log2(np.float64(amax)))
        half = np.exp2(exponent - FRACTION[dtype] - 1)
        exponent = np.floor(np.log2(np.float64(amax) + half))
    return int(max(0, exponent + 127 - EXPONENT[dtype]))


def amax_of(v, propagate):
    v = np.abs(v)
    if propagate and np.isnan(v).any():
        return F32(np.nan)
    return F32(np.max(np.where(np.isnan(v), 0, v), initial=0))


def quantize(case):
    """Returns codes by line and position, scales by line and block, values, amax and type."""
    dtype, block, squares = FORMATS[case["format"]]
    x = floats(case["x"]).astype(ml_dtypes.bfloat16).astype(F32)
    x = x.reshape(case["rows"], case["cols"])
    if case.get("columnwise"):
        x = x.T
    propagate = case.get("propagate", False)
    amax = amax_of(x, propagate)
    codes = np.zeros(x.shape, np.uint8)
    values = np.zeros(x.shape, F32)
    scales = []
    if block is None:
        scale = F32(case["scale"]) if "scale" in case else None
        if scale is None:
            scale = tensor_scale(case, amax, dtype, False, F32(np.finfo(F32).max))
        codes = encode(x * scale, dtype)
        inverse = F32(1) / scale
        return codes, [inverse], decode(codes, dtype) * inverse, amax, dtype
    for line in range(x.shape[0]):
        for start in range(0, x.shape[1], block):
            here = np.s_[line, start : start + block]
            first = line // block * block if squares else line
            around = np.s_[
                first : first + (block if squares else 1), start : start + block
            ]
            b = amax_of(x[around], propagate)
            if case["format"] in MX:
                stored = mx_scale(case, b, dtype)
                factor = np.uint8(stored).view(ml_dtypes.float8_e8m0fnu).astype(F32)
                multiplier = F32(1) / factor
            elif np.isnan(b):
                stored = factor = multiplier = b
            else:
                multiplier = tensor_scale(
                    case, b, dtype, True, F32(ml_dtypes.finfo(ml_dtypes.bfloat16).max)
                )
                stored = factor = F32(1) / multiplier
            scales.append(stored)
            codes[here] = encode(x[here] * multiplier, dtype)
            values[here] = decode(codes[here], dtype) * factor
    return codes, scales, values, amax, dtype


def same(a, b):
    a, b = np.asarray(a, F32), np.asarray(b, F32)
    nan = np.isnan(a)
    return (
        a.shape == b.shape
        and (nan == np.isnan(b)).all()
        and (a.view(np.uint32)[~nan] == b.view(np.uint32)[~nan]).all()
    )


def confirm(case):
    codes, scales, values, amax, dtype = quantize(case)
    columnwise = case.get("columnwise", False)
    block = FORMATS[case["format"]][1]
    if dtype is E2M1:
        whole = np.pad(codes, ((0, 0), (0, -codes.shape[1] % block))).reshape(-1)
        data = whole[0::2] | whole[1::2] << 4
    elif columnwise and case["format"] in MX:
        data = codes.T.reshape(-1)
    else:
        data = codes.reshape(-1)
    assert data.tolist() == hexes(case["data"]), "data"
    want = hexes(case["scales"])
    if case["format"] in MX:
        assert scales == want, "scales"
    else:
        assert same(scales, np.array(want, np.uint32).view(F32)), "scales"
    decoded = (values.T if columnwise else values).reshape(-1)
    assert same(decoded, floats(case["decoded"])), "decoded"
    if "amax" in case:
        assert same(amax, floats(case["amax"])[0]), "amax"
    if "history" in case:
        history = floats(case["history"])
        history[0] = amax
        top = history[0] if case.get("most_recent") else history.max()
        scale = LARGEST[dtype] * F32(2.0 ** -case.get("margin", 0)) / top
        assert same(scale, np.uint32(int(case["next_scale"], 16)).view(F32)), "next"
        rolled = np.roll(history, -1)
        rolled[0] = 0
        assert same(rolled, floats(case["rolled"])), "rolled"


def main():
    cases = json.loads(
        pathlib.Path(__file__).with_name("formats.json").read_text(encoding="utf-8")
    )
    for case in cases:
        try:
            confirm(case)
        except AssertionError as error:
            raise SystemExit(f"{case['name']}: {error}") from error
    print(f"{len(cases)} vectors confirmed, ml_dtypes {ml_dtypes.__version__}")


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
