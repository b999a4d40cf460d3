"""Tests of calibration files: their form, their merging, and the refusal of others."""

import json

import pytest

import quantd
from quantd.calibration_file import SCHEMA, merge

STACK = "model.layers.0.mlp.experts"


def part(amaxes, **more):
  return quantd.Calibration(
      input_amax=dict(amaxes), model={"name": "m", "sha256": "1"},
      data=[{"name": "d", "sha256": "2", "sequences": 1, "tokens": 8}], **more)


def test_a_file_reads_back_and_has_one_form(tmp_path):
  # The largest bf16 number below 1, and an fp32 number with many digits.
  made = part({"b": 0.99609375, "a": 1.10000002384185791015625},
              kv_amax={"attn": {"k": 3.5, "v": 2.0}}, unmeasured={"c": "why"})
  made.save(tmp_path / "a.json")
  again = quantd.Calibration.load(tmp_path / "a.json")
  assert again == made
  text = (tmp_path / "a.json").read_text()
  content = json.loads(text)
  assert content["schema"] == SCHEMA and list(content) == sorted(content)
  assert text.index('"a": ') < text.index('"b": 0.99609375')
  assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("text, said", [
    ("{", "schema|Expecting"),
    ("[]", "quantd.calibration/1"),
    ('{"schema": "quantd.calibration/2"}', "calibration/2"),
    ('{"model.q_proj": 3}', "schema"),
    ('{"schema": "quantd.calibration/1", "colour": 1}', "colour"),
])
def test_another_file_is_refused(tmp_path, text, said):
  (tmp_path / "a.json").write_text(text)
  with pytest.raises(quantd.Invalid, match=said):
    quantd.Calibration.load(tmp_path / "a.json")


def test_merging_prefers_measured_amaxes():
  """An expert measured in one part keeps its amax, even below its siblings'."""
  first = part({f"{STACK}.0.up_proj": 9.0, "q_proj": 1.0},
               unmeasured={f"{STACK}.1.up_proj": "nothing", f"{STACK}.2.up_proj": "nothing",
                           "o_proj": "nothing"},
               kv_amax={"attn": {"k": 1.0, "v": 5.0}})
  first.fill()
  assert first.filled == [f"{STACK}.1.up_proj", f"{STACK}.2.up_proj"]
  assert first.input_amax[f"{STACK}.1.up_proj"] == 9 and list(first.unmeasured) == ["o_proj"]
  second = part({f"{STACK}.0.up_proj": 4.0, f"{STACK}.1.up_proj": 2.0, "q_proj": 3.0, "o_proj": 7.0},
                unmeasured={f"{STACK}.2.up_proj": "nothing"},
                kv_amax={"attn": {"k": 2.0, "v": 4.0}})
  second.fill()
  assert second.input_amax[f"{STACK}.2.up_proj"] == 4
  for parts in ((first, second), (second, first)):
    whole = merge(parts)
    assert whole.input_amax == {
        f"{STACK}.0.up_proj": 9.0, f"{STACK}.1.up_proj": 2.0, f"{STACK}.2.up_proj": 9.0,
        "q_proj": 3.0, "o_proj": 7.0}
    assert whole.filled == [f"{STACK}.2.up_proj"] and not whole.unmeasured
    assert whole.kv_amax == {"attn": {"k": 2.0, "v": 5.0}}
    assert sum(run["tokens"] for run in whole.data) == 16


def test_siblings_are_of_one_projection_and_layer():
  made = part({f"{STACK}.0.up_proj": 9.0, "model.layers.1.mlp.experts.1.down_proj": 8.0},
              unmeasured={f"{STACK}.1.down_proj": "nothing"})
  made.fill()
  assert not made.filled and list(made.unmeasured) == [f"{STACK}.1.down_proj"]


def test_parts_of_other_models_or_methods_are_refused():
  other = part({"a": 1.0})
  other.model = {"name": "m", "sha256": "3"}
  with pytest.raises(quantd.Invalid, match="one model"):
    merge([part({"a": 1.0}), other])
  with pytest.raises(quantd.Invalid, match="method max"):
    merge([part({"a": 1.0}), part({"a": 1.0}, method="percentile 99")])
  with pytest.raises(quantd.Invalid, match="expected calibrations"):
    merge([])
