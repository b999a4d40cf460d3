#!/usr/bin/env python3
"""Finds comments and sentences that a reader must read twice.

    english.py [--list] [PATH...]    PATHs: files, default all that git tracks

In sources it finds comments that begin with a word that cannot begin a sentence
about a declaration, programs that are called "he", and phrases that are not
English. On pages it finds the same phrases, and sentences of more than 35 words.
`LIMITS` has the allowed numbers, which only decrease. CONTRIBUTING.md has
examples of such comments with better ones.
"""
import re
import subprocess
import sys

LIMITS = {"opening": 0, "pronoun": 0, "phrase": 0, "long sentence": 0}
OPENING = re.compile(
    r"(Of|As|Which|That|Who|Whoever|Whose|Where|Wherever|Likewise|The same)\b(?! is\b)")
PRONOUN = re.compile(r"\b(he|his|him|himself|whoever|whomever)\b", re.I)
PHRASE = re.compile(r"\b(of which|such an? one|is none|are none|no good|of whom)\b")
LONGEST = 35  # words of a sentence on a page
SOURCES = {"h": "//", "cc": "//", "cu": "//", "cuh": "//", "proto": "//",
           "py": "#", "sh": "#", "cmake": "#", "txt": "#", "toml": "#"}
GENERATED = re.compile(r"<!-- ([^:>]+): generated -->.*?<!-- end of \1 -->", re.S)


def comments(text, mark):
    """Yields (line number, text) of each comment on its own lines."""
    first, words = 0, []
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        if bare.startswith(mark) and not bare.startswith("#!"):
            if not words:
                first = number
            words.append(bare[len(mark):].lstrip("/").strip())
        elif words:
            yield first, " ".join(words)
            words = []


def sentences(page):
    """Yields the sentences of a page, without code, tables and headings."""
    page = re.sub(r"^ *```.*?^ *```|^ {4,}(?![-*\d]).*$", "\n", page,
                  flags=re.S | re.M)
    blocks = re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.) |^#.*$|^\s*\|.*$", page,
                      flags=re.M)
    for block in blocks:
        block = re.sub(r"\]\([^)]*\)", "]", " ".join(block.split()))
        block = re.sub(r"`[^`]*`", "C", block)
        yield from re.split(r"(?<=[.!?]) (?=[A-Z0-9\[*_(])|(?<=[.!?]\*\*) ", block)


def faults(path, text):
    """Yields (kind, line or None, text) for each fault in a file."""
    end = path.rsplit(".", 1)[-1]
    if end == "md":
        for sentence in sentences(GENERATED.sub("", text)):
            if len(sentence.split()) > LONGEST:
                yield "long sentence", None, sentence
            for kind, rule in (("pronoun", PRONOUN), ("phrase", PHRASE)):
                if rule.search(sentence):
                    yield kind, None, sentence
    elif end in SOURCES and (end != "txt" or path.endswith("CMakeLists.txt")):
        for line, comment in comments(text, SOURCES[end]):
            for sentence in re.split(r"(?<=[.!?:;]) (?=[A-Z])", comment):
                if OPENING.match(sentence):
                    yield "opening", line, sentence
            for kind, rule in (("pronoun", PRONOUN), ("phrase", PHRASE)):
                if rule.search(comment):
                    yield kind, line, comment


def main(arguments):
    """Counts faults and compares the numbers with the limits."""
    told = "--list" in arguments
    paths = [a for a in arguments if a != "--list"] or subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], check=True,
        capture_output=True, text=True).stdout.split()
    counts = dict.fromkeys(LIMITS, 0)
    found = []
    for path in sorted(set(paths)):
        if path.endswith(("english.py", "CONTRIBUTING.md", "LICENSE")):
            continue
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError):
            continue
        for kind, line, words in faults(path, text):
            counts[kind] += 1
            where = f"{path}:{line}" if line else path
            found.append((kind, f"{where}: {kind}: {words[:110]}"))
    wrong = [k for k in LIMITS if counts[k] > LIMITS[k]]
    lower = [k for k in LIMITS if counts[k] < LIMITS[k]]
    if told:
        print("\n".join(row for _, row in found))
        print(counts)
        return 0
    for kind in wrong:
        print(f"{kind}: {counts[kind]} faults, but the limit is {LIMITS[kind]}")
        print("\n".join(row for k, row in found if k == kind))
    for kind in lower:
        print(f"{kind}: {counts[kind]} faults; lower the limit to that in {__file__}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
