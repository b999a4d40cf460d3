#!/usr/bin/env python3
"""Makes the corpora of the tree anew, of those there and of what was found.

    tests/fuzz/corpus.py FOUND TARGET...

For each target the fewest inputs that libFuzzer finds to reach the same, into
corpus/TARGET.zip. Times in it are all the same, so that equal inputs make equal
archives.
"""

import pathlib
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build/fuzz/tests/fuzz"
MOST = 450_000  # bytes of an archive


def merge(target, found, into):
    corpus = BUILD / "corpus" / target
    command = [BUILD / f"fuzz_{target}", "-set_cover_merge=1", "-close_fd_mask=3",
               "-max_len=4096", into, found / target]
    if corpus.is_dir():
        command.append(corpus)
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    found = pathlib.Path(sys.argv[1])
    for target in sys.argv[2:]:
        with tempfile.TemporaryDirectory() as into:
            merge(target, found, into)
            inputs = sorted(pathlib.Path(into).iterdir(),
                            key=lambda f: (f.stat().st_size, f.name))
            archive = HERE / "corpus" / f"{target}.zip"
            with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED,
                                 compresslevel=9) as out:
                for file in inputs:
                    info = zipfile.ZipInfo(file.name, (2026, 1, 1, 0, 0, 0))
                    out.writestr(info, file.read_bytes(),
                                 zipfile.ZIP_DEFLATED, 9)
        size = archive.stat().st_size
        print(f"{target}: {len(inputs)} inputs, {size} bytes")
        if size > MOST:
            sys.exit(f"{archive}: more than {MOST} bytes")


if __name__ == "__main__":
    main()
