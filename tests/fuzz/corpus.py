#!/usr/bin/env python3
"""Makes the corpora of the tree anew, of those there and of what was found.

    tests/fuzz/corpus.py FOUND TARGET...

For each target the fewest inputs that libFuzzer finds to reach the same, into
corpus/TARGET.zip: the same edges as often, or, where those are too many bytes,
the same edges. Times in it are all the same, so that equal inputs make equal
archives.
"""

import pathlib
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build/fuzz/tests/fuzz"
# Bytes of an archive: ten of them are less than 2 MB, most being small.
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
