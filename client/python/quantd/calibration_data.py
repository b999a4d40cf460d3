"""Sequences of token ids for calibration, from a file or Python's help."""

import json
import pathlib
import random
from collections.abc import Iterable, Iterator
from typing import Any

from quantd.errors import Invalid
from quantd.values import shown

__all__ = ["sequences", "texts_of", "texts_of_python"]

# No language has more characters per token on average.
_CHARACTERS = 8
# One sample: a text, or the messages of a chat.
Sample = str | list[Any]


def sequences(
  tokenizer: Any,
  samples: Iterable[Sample],
  *,
  most: int,
  length: int,
  tokens: int | None,
  seed: int,
) -> list[Any]:
  """Returns tokens of at most `most` samples, each cut to `length`.

  If there are more samples, `seed` selects some at random, in their order. They
  are read once, and at most `most` are held. `tokens` limits the total.
  """
  import torch

  chance = random.Random(seed)
  kept: list[tuple[int, Sample]] = []
  for place, sample in enumerate(samples):
    if place < most:
      kept.append((place, sample))
    elif (drawn := chance.randrange(place + 1)) < most:
      kept[drawn] = (place, sample)
  out: list[Any] = []
  left = most * length if tokens is None else tokens
  for _, sample in sorted(kept, key=lambda pair: pair[0]):
    ids = _ids(tokenizer, sample, min(length, left))
    if ids:
      out.append(torch.tensor([ids]))
      left -= len(ids)
  if not out:
    raise Invalid.of("data", "samples with text", "none")
  return out


def texts_of(path: pathlib.Path, length: int) -> Iterator[Sample]:
  """Yields samples from a file: JSON lines, parquet rows, or plain text."""
  if path.suffix == ".jsonl":
    with path.open(encoding="utf-8") as lines:
      for number, line in enumerate(lines, 1):
        if line.strip():
          try:
            row = json.loads(line)
          except ValueError:
            row = None
          yield _sample(row, f"{path}:{number}")
  elif path.suffix == ".parquet":
    try:
      from datasets import load_dataset
    except ImportError as missing:
      remedy = "the package datasets to read parquet: pip install datasets"
      raise Invalid.of("data", remedy, str(path)) from missing
    rows = load_dataset(
      "parquet", data_files=str(path), split="train", streaming=True
    )
    for number, row in enumerate(rows):
      yield _sample(row, f"{path}, row {number}")
  elif path.suffix in (".txt", ".md"):
    with path.open(encoding="utf-8") as lines:
      yield from _windows(lines, length)
  else:
    raise Invalid.of("data", "a file .jsonl, .parquet, .txt or .md", str(path))


def texts_of_python(length: int) -> Iterator[Sample]:
  """Yields samples from Python's help, which a complete Python includes."""
  from pydoc_data.topics import topics

  pages = (topics[name] for name in sorted(topics))
  yield from _windows(
    (f"{line}\n" for p in pages for line in p.split("\n")), length
  )


def _windows(lines: Iterable[str], length: int) -> Iterator[str]:
  """Joins whole lines into samples of at least `length` tokens."""
  window: list[str] = []
  size = 0
  for line in lines:
    window.append(line)
    size += len(line)
    if size >= length * _CHARACTERS:
      yield "".join(window)
      window, size = [], 0
  if "".join(window).strip():
    yield "".join(window)


def _sample(row: Any, where: str) -> Sample:
  if isinstance(row, dict):
    row = row.get("messages", row.get("text", row))
  if isinstance(row, (str, list)):
    return row
  expected = 'a JSON string, {"text": ...} or {"messages": [...]}'
  raise Invalid.of(where, expected, shown(row))


def _ids(tokenizer: Any, sample: Sample, most: int) -> list[int]:
  """Tokenizes a chat with its template, or a text with its special tokens."""
  if isinstance(sample, str):
    return list(tokenizer(sample)["input_ids"][:most])
  if not getattr(tokenizer, "chat_template", None):
    expected = "texts, because the tokenizer has no chat template"
    raise Invalid.of("data", expected, "messages")
  text = tokenizer.apply_chat_template(sample, tokenize=False)
  ids = tokenizer(text, add_special_tokens=False)["input_ids"]
  return list(ids[:most])
