"""Runs the examples in the pipelines' docstrings."""

import doctest
import importlib

import numpy as np
import pytest

import quantd
from rig import limit, q, server  # noqa: F401

# Modules, with the package that each needs to be imported.
MODULES = {"columns": "numpy"}


@pytest.mark.parametrize("name", MODULES)
def test_examples(q, name):
  pytest.importorskip(MODULES[name], reason=f"{MODULES[name].upper()} IS NOT INSTALLED")
  module = importlib.import_module(f"quantd.{name}")
  names = {"q": q, "np": np, "quantd": quantd, **vars(module)}
  found = doctest.testmod(module, extraglobs=names)
  assert found.attempted > 0 and found.failed == 0
