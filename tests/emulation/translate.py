#!/usr/bin/env python3
"""Rewrites preprocessed CUDA C++ into C++ for tests/emulation.

    g++ -E ... kernel.cu -o kernel.ii
    translate.py kernel.ii kernel.cc

Three parts of CUDA need this. Inline PTX becomes calls of the interpreter
(ptx.h), launches become calls of the scheduler (threads.h), and indices of
threads become members of `emulation::current`. Macros and functions of device.h
replace everything else.
"""

import re
import sys

OPENING = {"(": ")", "{": "}", "[": "]"}
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
CHARACTER = re.compile(r"'(?:[^'\\]|\\.)+'")
RAW = re.compile(r'R"([^()\\ ]*)\(.*?\)\1"', re.S)


def skip_literal(text: str, i: int) -> int:
    """The end of the literal that begins at i, or i if none begins there."""
    for pattern in (RAW, STRING):
        if match := pattern.match(text, i):
            return match.end()
    # (An apostrophe within a number separates digits.)
    if text[i] == "'" and not (i and (text[i - 1].isalnum())):
        if match := CHARACTER.match(text, i):
            return match.end()
    return i


def end_of_group(text: str, i: int) -> int:
    """The position after the bracket that closes the one at i."""
    closing = [OPENING[text[i]]]
    i += 1
    while closing:
        if (end := skip_literal(text, i)) != i:
            i = end
            continue
        c = text[i]
        if c in OPENING:
            closing.append(OPENING[c])
        elif c == closing[-1]:
            closing.pop()
        i += 1
    return i


def split(text: str, separator: str) -> list[str]:
    """Splits text at separators outside of brackets and literals."""
    parts, start, i = [], 0, 0
    while i < len(text):
        if (end := skip_literal(text, i)) != i:
            i = end
        elif text[i] in OPENING:
            i = end_of_group(text, i)
        elif text[i] == separator:
            # "::" in a name is no separator.
            if separator == ":" and text[i : i + 2] == "::" and _is_name(text, i):
                i += 2
                continue
            parts.append(text[start:i])
            start = i = i + 1
        else:
            i += 1
    return parts + [text[start:]]


def _is_name(text: str, i: int) -> bool:
    return text[i - 1].isalnum() and (text[i + 2].isalpha() or text[i + 2] == "_")


OPERAND = re.compile(r'\s*"([=+]?)([rhlfn])"\s*\((.*)\)\s*\Z', re.S)


def ptx(arguments: str) -> str:
    """The call that replaces asm(arguments)."""
    parts = split(arguments, ":")
    operands = []
    for part in parts[1:3]:
        for operand in split(part, ","):
            if not operand.strip():
                continue
            match = OPERAND.match(operand)
            if not match:
                sys.exit(f"translate.py: cannot parse the operand {operand}")
            place, _, expression = match.groups()
            kind = "Place" if place else "Value"
            operands.append(f"::emulation::{kind}({expression})")
    return f"::emulation::Ptx({', '.join([parts[0].strip(), *operands])})"


def launch(before: str, configuration: str, arguments: str) -> tuple[str, str]:
    """`before` without the kernel at its end, and the launch as a call."""
    end = len(before.rstrip())
    i = end
    depth = 0
    while i > 0:
        c = before[i - 1]
        if c == ">":
            depth += 1
        elif c == "<":
            depth -= 1
        elif depth == 0 and not (c.isalnum() or c in "_:"):
            break
        i -= 1
    kernel = before[i:end]
    values = [v.strip() for v in split(configuration, ",")]
    values += ["0"] * (4 - len(values))
    call = f"::emulation::Launch({', '.join(values)}, {kernel}, {arguments})"
    return before[:i], call


# CUDA's indices of threads, and the members of Thread (threads.h) for them.
PLACES = {
    "threadIdx": "thread",
    "blockIdx": "block",
    "blockDim": "block_size",
    "gridDim": "grid_size",
}
PLACE = re.compile(rf"(?<![\w.>])({'|'.join(PLACES)})(?=\.[xyz]\b)")

TOKEN = re.compile(r"\basm\b(?=\s*(?:volatile\s*)?\()|<<<")
# "extern __shared__ __align__(n) T name[];" becomes a pointer to the CTA's
# memory. (device.h has already replaced the macros.)
DYNAMIC = re.compile(r"\bextern static (?:alignas\(\d+\) )?([\w:]+) (\w+)\[\];")


def translate(text: str) -> str:
    text = DYNAMIC.sub(
        r"auto* const \2 = reinterpret_cast<\1*>(::emulation::dynamic_shared);", text
    )
    text = PLACE.sub(lambda m: f"::emulation::current->{PLACES[m.group()]}", text)
    out = ""
    i = 0
    while match := TOKEN.search(text, i):
        out += text[i : match.start()]
        if match.group() != "<<<":
            start = text.index("(", match.end())
            end = end_of_group(text, start)
            out += ptx(text[start + 1 : end - 1])
        else:
            closing = text.index(">>>", match.end())
            start = text.index("(", closing)
            end = end_of_group(text, start)
            out, call = launch(
                out, text[match.end() : closing], text[start + 1 : end - 1]
            )
            out += call
        i = end
    return out + text[i:]


if __name__ == "__main__":
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        result = translate(file.read())
    with open(target, "w", encoding="utf-8") as file:
        file.write(result)
