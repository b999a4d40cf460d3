#!/usr/bin/env python3
"""Rebuilds the corpora in the tree from the existing ones and from new inputs.

    tests/fuzz/corpus.py FOUND TARGET...

Writes corpus/TARGET.zip for each target: the fewest inputs that libFuzzer finds
to reach the same edges equally often or, if these are too many bytes, the same
edges. All times in the archive are equal, so that equal inputs make equal
archives.
"""

import pathlib
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build/fuzz/tests/fuzz"
# The limit in bytes of an archive. Most are small, so that ten have less than 2
# MB.
MOST = 350_000


def merge(target, found, into, counters):
    corpus = BUILD / "corpus" / target
    command = [BUILD / f"fuzz_{target}", "-set_cover_merge=1",
               f"-use_counters={counters}", "-close_fd_mask=3",
               "-max_len=4096", into, found / target]
    if corpus.is_dir():
        command.append(corpus)
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def pack(inputs, archive):
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED,
                         compresslevel=9) as out:
        for file in inputs:
            info = zipfile.ZipInfo(file.name, (2026, 1, 1, 0, 0, 0))
            out.writestr(info, file.read_bytes(), zipfile.ZIP_DEFLATED, 9)
    return archive.stat().st_size


def main():
    found = pathlib.Path(sys.argv[1])
    for target in sys.argv[2:]:
        archive = HERE / "corpus" / f"{target}.zip"
        for counters in (1, 0):
            with tempfile.TemporaryDirectory() as into:
                merge(target, found, into, counters)
                inputs = sorted(pathlib.Path(into).iterdir(),
                                key=lambda f: (f.stat().st_size, f.name))
                size = pack(inputs, archive)
            if size <= MOST:
                break
        print(f"{target}: {len(inputs)} inputs, {size} bytes", flush=True)
        if size > MOST:
            sys.exit(f"{archive}: more than {MOST} bytes")


if __name__ == "__main__":
    main()
