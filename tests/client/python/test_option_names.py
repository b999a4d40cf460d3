"""Tests that options have the same names in quantd.proto, the package and quantctl."""

import os
import re
import subprocess

from quantd import quantd_pb2 as pb
from quantd.options import QuantizeKeywords

# Fields of QuantizeOptions whose keyword or flag has another name, or that have
# none (None). A keyword or a flag may set several fields, depending on its
# value.
KEYWORDS = {
  "rht.rowwise": "rht", "rht.columnwise": "rht",
  "rht.dimension": "rht_dimension",
  "given_amax.rowwise": "given_amax", "given_amax.columnwise": "given_amax",
  "rounding": "stochastic", "stochastic.seed": "stochastic",
  "shard.row_offset": "shard", "shard.column_offset": "shard",
  "shard.total_columns": "shard",
  "history.amax": "history", "history.rule": "history_rule",
  "history.margin": "history_margin",
  "splits.rows": "splits", "splits.partial": "partial_splits",
  "dbias_dtype": "dbias", "format": None,
}
FLAGS = {
  "rht.rowwise": "rht", "rht.columnwise": "rht",
  "rht.dimension": "rht-dimension",
  "given_amax.rowwise": "given-amax-rowwise",
  "given_amax.columnwise": "given-amax-columnwise",
  "splits.rows": "splits",
  # quantctl has no flags for an amax history, which no file keeps, and for groups
  # that end before the last row.
  "history.amax": None, "history.rule": None, "history.margin": None,
  "splits.partial": None,
}


def fields(message=pb.QuantizeOptions.DESCRIPTOR, above=""):
  for field in message.fields:
    if field.message_type is not None:
      yield from fields(field.message_type, f"{above}{field.name}.")
    elif not field.name.endswith("_values"):
      yield above + field.name


def test_options_have_the_same_name_everywhere():
  page = subprocess.run([os.environ["QUANTCTL"], "help", "quantize"], check=True,
                        capture_output=True, encoding="utf-8").stdout
  flags = set(re.findall(r"^  (?:-\w, )?--([\w-]+)", page, re.M))
  for path in fields():
    leaf = path.rpartition(".")[2]
    keyword, flag = KEYWORDS.get(path, leaf), FLAGS.get(path, leaf.replace("_", "-"))
    assert keyword is None or keyword in QuantizeKeywords.__annotations__, path
    assert flag is None or flag in flags, path
  known = set(fields())
  assert known >= set(KEYWORDS) | set(FLAGS)
