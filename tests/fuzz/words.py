#!/usr/bin/env python3
"""Prints a libFuzzer dictionary: the words in string literals of a target's
parsers and of the files in their folders. The corpora have other words.

    tests/fuzz/words.py TARGET
"""

import pathlib
import re
import sys

from coverage import PARSERS, ROOT

LITERAL = re.compile(r'(?<!include )"([^"\\\s]{1,40})"')


def main():
    words = set()
    for folder in {(ROOT / name).parent for name in PARSERS[sys.argv[1]]}:
        for source in folder.rglob("*.cc"):
            found = LITERAL.findall(source.read_text(encoding="utf-8"))
            words.update(word.lstrip("-") or word for word in found)
    print(*(f'"{word}"' for word in sorted(words)), sep="\n")


if __name__ == "__main__":
    main()
