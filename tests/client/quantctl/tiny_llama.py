"""Writes a small Llama with random weights: tiny_llama.py FOLDER [planted]

planted: makes the weights of one layer tiny compared with those that share
their scale, so that a report has a finding.
"""

import array
import json
import pathlib
import random
import struct
import sys

HIDDEN = 128
LAYERS = 6
VOCABULARY = 256
SHAPES = (("self_attn.q_proj", HIDDEN, HIDDEN),
          ("self_attn.k_proj", HIDDEN // 2, HIDDEN),
          ("self_attn.v_proj", HIDDEN // 2, HIDDEN),
          ("self_attn.o_proj", HIDDEN, HIDDEN),
          ("mlp.gate_proj", 2 * HIDDEN, HIDDEN),
          ("mlp.up_proj", 2 * HIDDEN, HIDDEN),
          ("mlp.down_proj", HIDDEN, 2 * HIDDEN))


def numbers_of(name, layer, count, planted):
  # Later layers have heavier tails, as in real models.
  values = array.array("f", (random.gauss(0, .02) for _ in range(count)))
  for i in range(0, count, 97):
    values[i] *= 1 + layer
  if planted and layer == 2 and name == "self_attn.q_proj":
    values[5] = 3.0
  if planted and layer == 2 and name == "self_attn.k_proj":
    values = array.array("f", (x / 1000 for x in values))
  return values


def main():
  folder, planted = pathlib.Path(sys.argv[1]), sys.argv[2:] == ["planted"]
  random.seed(1)
  header, data = {}, b""

  def add(name, shape, values):
    nonlocal data
    # Truncates fp32 to bf16, its upper half.
    halves = array.array("H", values.tobytes())[1::2].tobytes()
    header[f"{name}.weight"] = {"dtype": "BF16", "shape": shape,
                                "data_offsets": [len(data), len(data) + len(halves)]}
    data += halves

  ones = array.array("f", [1] * HIDDEN)
  for name in ("model.embed_tokens", "lm_head"):
    add(name, [VOCABULARY, HIDDEN], numbers_of(name, 0, VOCABULARY * HIDDEN, False))
  add("model.norm", [HIDDEN], ones)
  for layer in range(LAYERS):
    at = f"model.layers.{layer}"
    for name in ("input_layernorm", "post_attention_layernorm"):
      add(f"{at}.{name}", [HIDDEN], ones)
    for name, rows, cols in SHAPES:
      add(f"{at}.{name}", [rows, cols], numbers_of(name, layer, rows * cols, planted))
  head = json.dumps(header).encode()
  head += b" " * (-len(head) % 8)
  folder.mkdir(parents=True, exist_ok=True)
  (folder / "model.safetensors").write_bytes(
      struct.pack("<Q", len(head)) + head + data)
  (folder / "config.json").write_text(json.dumps(
      {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
       "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
       "vocab_size": VOCABULARY}))


main()
