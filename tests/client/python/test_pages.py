"""Tests that examples on pages run, and that mypy and ruff find nothing."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import quantd
from quantd.words import FORMATS

PACKAGE = pathlib.Path(__file__).resolve().parents[3] / "client/python"


@pytest.fixture
def run_first(server, engine, tmp_path, monkeypatch):
  """Returns a function that runs the first example of a page with the test server."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(
      quantd, "connect",
      lambda target=None, made=quantd.connect: made(server, engine=engine))

  def run(page, **names):
    _, _, rest = page.read_text().partition("```python\n")
    exec(rest.partition("```")[0].replace("4096", "64"), names)
    return names

  return run


def test_the_example_of_the_front_page(run_first, x):
  names = run_first(PACKAGE.parents[1] / "README.md", w=x)
  assert names["t"].columnwise.rotated and not names["t"].rowwise.rotated
  names["q"].close()


def test_example(run_first):
  names = run_first(PACKAGE / "README.md")
  assert np.abs(names["y"] - names["x"]).mean() < 0.2
  assert np.array_equal(names["again"].dequantize(), names["t"].dequantize())
  assert os.path.exists("x.safetensors")
  names["q"].close()


def test_names_in_tables_exist():
  """Every name in the tables of the page exists in the package."""
  text = (PACKAGE / "README.md").read_text()
  for name in ("sign_vector", "sign_mask", "rht_matrix", "hadamard_matrix",
               "apply_rht", "rht_amax"):
    assert name in text and callable(getattr(quantd.hadamard, name))
  for name in ("set_usage", "quantize", "is_quantizable", "copy"):
    assert name in text and callable(getattr(quantd.Quantizer, name))
  for name in quantd.__all__:
    assert getattr(quantd, name) is not None


def test_every_format_is_in_the_front_page():
  text = (PACKAGE.parents[1] / "README.md").read_text()
  table = text.partition("## Formats")[2].partition("\n\nEvery format")[0]
  shortened = ("fp8_block_2d_", "fp8_block_")
  for name in FORMATS:
    prefix = next((p for p in shortened if name.startswith(p)), "")
    assert f"`{prefix}...`" in table if prefix else f"`{name}`" in table, name


def test_padding_as_on_the_page(q):
  text = (PACKAGE / "README.md").read_text()
  shape = (3, 50, 96)
  assert str(list(shape)) in text
  t = q.quantize(np.ones(shape, np.float32), "mxfp8_e4m3", usage="both")
  rowwise, columnwise = (c.scales.view(np.uint8) for c in (t.rowwise, t.columnwise))
  for scales, (rows, cols) in ((rowwise, (150, 3)), (columnwise, (5, 96))):
    assert str(list(scales.shape)) in text and f"[:{rows}, :{cols}]" in text
    assert scales[:rows, :cols].all()
    assert not scales[rows:].any() and not scales[:, cols:].any()
  for copy in (t.rowwise, t.columnwise):
    assert copy.codes.shape == (150, 96)


def check_with(tool, *words):
  if importlib.util.find_spec(tool) is None:
    pytest.skip(f"{tool.upper()} IS NOT INSTALLED")
  done = subprocess.run([sys.executable, "-m", tool, *words], capture_output=True,
                        text=True, cwd=PACKAGE)
  assert done.returncode == 0, done.stdout + done.stderr


def test_style():
  check_with("ruff", "check", "--no-cache", PACKAGE)


def test_types(tmp_path):
  """Adds the types of messages to a copy of the package, as release.sh does."""
  if shutil.which("protoc") is None:
    pytest.skip("PROTOC IS NOT INSTALLED")
  copy = shutil.copytree(quantd.__path__[0], tmp_path / "quantd")
  subprocess.run(["protoc", f"--proto_path={PACKAGE.parents[1] / 'proto'}",
                  f"--pyi_out={copy}", "quantd.proto"], check=True)
  check_with("mypy", "--config-file", PACKAGE / "mypy.ini", copy)
