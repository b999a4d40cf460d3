#!/usr/bin/env python3
"""Checks README.md's picture and terminal session against quantctl's output.

  front_page.py QUANTCTL         exit code 1 if one of the two is stale
  front_page.py QUANTCTL --fix   updates both; the picture needs Chromium

Measured times in the session may differ. README.md stores the hash of the page
that the picture shows, computed without version numbers.
"""

import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
README = HERE.parents[2] / "README.md"
PICTURE = HERE.parents[2] / "client/quantctl/models/report.png"
SESSION = re.compile(r"(<!-- session: generated -->\n)(.*?)(<!-- end of session -->)", re.S)
PAGE = re.compile(r"(<!-- report\.png shows )(\w*)( -->)")
COMMANDS = ("quantctl convert Llama-tiny Llama-tiny-NVFP4 --report report",
            "quantctl compare Llama-tiny Llama-tiny-NVFP4")

# Lines of the two outputs that README.md shows.
SHOWN = ("quantized:", "total:", "check:", "tensor", "model.layers.5.mlp", "verdict:")


def timeless(text):
  return re.sub(r"[\d.]+ s, [\d.]+ \w+/s", "TIME", text)


def run(quantctl, folder):
  """Returns the terminal's output for COMMANDS."""
  subprocess.run([sys.executable, HERE / "tiny_llama.py", folder / "Llama-tiny"],
                 check=True)
  shown = ""
  for command in COMMANDS:
    words = [quantctl, *command.split()[1:]]
    if "convert" in words:
      words += ["--server", "local:cpu"]
    out = subprocess.run(words, cwd=folder, check=True, capture_output=True,
                         encoding="utf-8").stdout
    lines = [line for line in out.splitlines() if line.startswith(SHOWN)]
    shown += f"$ {command}\n" + "\n".join(lines) + "\n"
  return f"\n```\n{shown}```\n\n"


def main():
  quantctl, fix = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:] == ["--fix"]
  text = README.read_text(encoding="utf-8")
  with tempfile.TemporaryDirectory() as work:
    work = pathlib.Path(work)
    session = run(quantctl, work)
    page = work / "report/report.html"
    html = re.sub(r"\d+\.\d+\.\d+", "", page.read_text(encoding="utf-8"))
    digest = hashlib.sha256(html.encode()).hexdigest()[:16]
    stale = []
    if timeless(SESSION.search(text)[2]) != timeless(session):
      stale.append("the terminal session")
    if PAGE.search(text)[2] != digest:
      stale.append("the picture")
    if not fix or not stale:
      if stale:
        sys.exit(f"README.md is stale: {' and '.join(stale)}; run {sys.argv[0]} "
                 f"{sys.argv[1]} --fix")
      return
    subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu",
                    "--hide-scrollbars", f"--user-data-dir={work}/profile",
                    "--window-size=1200,640", f"--screenshot={PICTURE}",
                    f"file:{page}"], check=True, capture_output=True)
  text = SESSION.sub(lambda m: m[1] + session + m[3], text)
  README.write_text(PAGE.sub(rf"\g<1>{digest}\g<3>", text), encoding="utf-8")


main()
