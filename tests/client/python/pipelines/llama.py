"""A model of a few layers whose fused weights lie in different shards."""

import json

import numpy as np

HIDDEN, INNER, LAYERS, VOCABULARY = 512, 1024, 4, 256


def _tensors():
  rng = np.random.default_rng(4)

  def matrix(n, k):
    values = (rng.standard_normal((n, k)) * 0.05).astype(np.float32)
    return (values.view(np.uint32) >> 16).astype(np.uint16)

  yield "model.embed_tokens.weight", matrix(VOCABULARY, HIDDEN)
  for i in range(LAYERS):
    layer = f"model.layers.{i}"
    yield f"{layer}.input_layernorm.weight", matrix(1, HIDDEN)[0]
    for name in ("q", "k", "v", "o"):
      yield f"{layer}.self_attn.{name}_proj.weight", matrix(HIDDEN, HIDDEN)
    yield f"{layer}.mlp.gate_proj.weight", matrix(INNER, HIDDEN)
    yield f"{layer}.mlp.up_proj.weight", matrix(INNER, HIDDEN)
    yield f"{layer}.mlp.down_proj.weight", matrix(HIDDEN, INNER)
  yield "model.norm.weight", matrix(1, HIDDEN)[0]
  yield "lm_head.weight", matrix(VOCABULARY, HIDDEN)


def _shard_of(name):
  """Layers 1 and 2 share k_proj with a neighbour; the last has no weight."""
  if name.startswith(("lm_head", "model.norm")):
    return 5
  if name.startswith("model.embed"):
    return 0
  layer = int(name.split(".")[2])
  return layer + 2 if name.endswith("layers.1.self_attn.k_proj.weight") else layer + 1


def write_safetensors(path, tensors):
  head, at = {"__metadata__": {"format": "pt"}}, 0
  for name, bits in tensors.items():
    head[name] = {"dtype": "BF16", "shape": list(bits.shape),
                  "data_offsets": [at, at + bits.nbytes]}
    at += bits.nbytes
  text = json.dumps(head).encode()
  text += b" " * (-len(text) % 8)
  with open(path, "wb") as file:
    file.write(len(text).to_bytes(8, "little") + text)
    for bits in tensors.values():
      file.write(bits.tobytes())


def write_model(folder):
  """Six shards; those of layers 1 and 2 belong together."""
  folder.mkdir()
  shards = {}
  for name, bits in _tensors():
    shards.setdefault(_shard_of(name), {})[name] = bits
  where = {}
  for i, tensors in sorted(shards.items()):
    name = f"model-{i + 1:05d}-of-00006.safetensors"
    write_safetensors(folder / name, tensors)
    where.update(dict.fromkeys(tensors, name))
  (folder / "model.safetensors.index.json").write_text(
      json.dumps({"metadata": {}, "weight_map": where}))
  (folder / "config.json").write_text(json.dumps({
      "architectures": ["LlamaForCausalLM"], "model_type": "llama",
      "num_hidden_layers": LAYERS, "hidden_size": HIDDEN, "rms_norm_eps": 1e-05,
      "tie_word_embeddings": False, "name": "Übung"}))
  (folder / "tokenizer.json").write_text("{}")
  (folder / "assets").mkdir()
  (folder / "assets/licence.txt").write_text("free\n")
  return folder
