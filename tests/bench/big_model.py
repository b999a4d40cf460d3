#!/usr/bin/env python3
"""Measures quantctl convert of a model larger than memory.

Makes a Llama of the given size in bf16 shards. Most of each tensor is a hole,
which the file system does not store and reads as zeros; some rows have random
weights. Converts the model in one process and through a server on loopback.
Compares each process's peak of resident memory with the bound that it prints,
and the rate with that of quantctl quantize on one shard.

    big_model.py FOLDER --quantctl build/cpu/client/quantctl
                 [--quantd build/cpu/server/quantd] [--gigabytes 20]

FOLDER needs free space for a third of the model, and is empty again afterwards.
Exits with 1 if a process exceeded its bound.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

HIDDEN, INTERMEDIATE, KEYS, WORDS = 8192, 28672, 1024, 32000
LAYERS_OF_A_SHARD = 2
RANDOM_ROWS = 4
LAYER = {
    "self_attn.q_proj": (HIDDEN, HIDDEN),
    "self_attn.k_proj": (KEYS, HIDDEN),
    "self_attn.v_proj": (KEYS, HIDDEN),
    "self_attn.o_proj": (HIDDEN, HIDDEN),
    "mlp.gate_proj": (INTERMEDIATE, HIDDEN),
    "mlp.up_proj": (INTERMEDIATE, HIDDEN),
    "mlp.down_proj": (HIDDEN, INTERMEDIATE),
    "input_layernorm": (HIDDEN,),
    "post_attention_layernorm": (HIDDEN,),
}


def bytes_of(shape):
    size = 2
    for extent in shape:
        size *= extent
    return size


def layer(index):
    return {f"model.layers.{index}.{name}.weight": shape
            for name, shape in LAYER.items()}


def random_bf16(count):
    """Returns bf16 numbers of both signs with magnitudes from 2^-7 to 2^-3."""
    bits = bytearray(os.urandom(2 * count))
    for high in range(1, len(bits), 2):
        # Keeps the sign and the two lowest bits of the exponent random; one of
        # these is in the other byte.
        bits[high] = bits[high] & 0x81 | 0x3C
    return bytes(bits)


def write_shard(path, tensors):
    header, end = {}, 0
    for name, shape in tensors.items():
        begin, end = end, end + bytes_of(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape),
                        "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        data = file.tell()
        file.truncate(data + end)
        for name, shape in tensors.items():
            row = bytes_of(shape[1:])
            rows = range(0, shape[0], max(1, shape[0] // RANDOM_ROWS))
            for index in rows if len(shape) > 1 else []:
                file.seek(data + header[name]["data_offsets"][0] + index * row)
                file.write(random_bf16(row // 2))


def write_model(folder, gigabytes):
    """Writes the model and returns the paths of its shards."""
    layers = max(1, round(
        gigabytes * 1e9 / sum(map(bytes_of, layer(0).values()))))
    shards = [{"model.embed_tokens.weight": (WORDS, HIDDEN),
               "model.norm.weight": (HIDDEN,)}]
    for first in range(0, layers, LAYERS_OF_A_SHARD):
        shards.append({})
        for index in range(first, min(first + LAYERS_OF_A_SHARD, layers)):
            shards[-1].update(layer(index))
    folder.mkdir()
    index = {}
    paths = []
    for number, tensors in enumerate(shards, 1):
        path = folder / f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_shard(path, tensors)
        paths.append(path)
        index.update(dict.fromkeys(tensors, path.name))
    (folder / "model.safetensors.index.json").write_text(json.dumps(
        {"metadata": {}, "weight_map": index}))
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": layers, "num_attention_heads": HIDDEN // 128,
        "num_key_value_heads": KEYS // 128, "head_dim": 128,
        "vocab_size": WORDS, "tie_word_embeddings": True,
        "torch_dtype": "bfloat16"}))
    return paths


def timed(*command):
    """Runs a command; returns seconds and the peak of resident memory."""
    begin = time.monotonic()
    process = subprocess.Popen([str(part) for part in command],
                               stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return time.monotonic() - begin, usage.ru_maxrss * 1024


class Server:
    """A quantd process on a free port."""

    def __init__(self, quantd, folder):
        self.log = folder / "quantd.log"
        port = folder / "port"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [quantd, "--listen", "127.0.0.1:0", "--port-file", str(port),
                 "--device", "cpu"], stdout=log, stderr=log)
        while not port.exists() or not port.read_text().strip():
            if self.process.poll() is not None:
                raise RuntimeError(self.log.read_text())
            time.sleep(0.05)
        self.address = port.read_text().strip()

    def bound(self):
        stated = re.search(r"memory_bound_bytes\W+(\d+)", self.log.read_text())
        return int(stated.group(1))

    def peak(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) * 1024

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


class Bench:
    def __init__(self, quantctl, folder, source):
        self.quantctl, self.folder, self.source = quantctl, folder, source
        self.exceeded = False

    def memory(self, who, peak, bound):
        self.exceeded |= peak > bound
        print(f"  {who}: peak {peak / 2**20:.0f} MiB, bound "
              f"{bound / 2**20:.0f} MiB{' EXCEEDED' if peak > bound else ''}",
              flush=True)

    def convert(self, address):
        """Returns bytes per second, and prints the client's memory."""
        out = self.folder / "out"
        arguments = ["convert", self.source, out, "--dialect",
                     "compressed-tensors", "--format", "nvfp4", "--server",
                     address, "--deadline", "600"]
        plan = json.loads(subprocess.run(
            [self.quantctl, *map(str, arguments), "--dry-run", "--json"],
            capture_output=True, check=True, text=True).stdout)
        seconds, peak = timed(self.quantctl, *arguments)
        shutil.rmtree(out)
        size = sum(p.stat().st_size for p in self.source.glob("*.safetensors"))
        print(f"convert, {address}: {size / 1e9:.1f} GB in {seconds:.1f} s, "
              f"{size / seconds / 1e9:.2f} GB/s", flush=True)
        self.memory("client", peak, plan["memory_bytes"])
        return size / seconds

    def quantize(self, shard, address):
        """Returns bytes per second for one shard."""
        out = self.folder / "one.safetensors"
        seconds, peak = timed(
            self.quantctl, "quantize", shard, "-o", out, "--profile",
            "compressed-tensors@0.20", "--server", address, "--deadline", 600)
        out.unlink()
        size = shard.stat().st_size
        print(f"quantize, {address}: {size / 1e9:.1f} GB in {seconds:.1f} s, "
              f"{size / seconds / 1e9:.2f} GB/s, peak {peak / 2**20:.0f} MiB",
              flush=True)
        return size / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--quantctl", required=True)
    parser.add_argument("--quantd")
    parser.add_argument("--gigabytes", type=float, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        folder = pathlib.Path(folder)
        shards = write_model(folder / "model", options.gigabytes)
        bench = Bench(options.quantctl, folder, folder / "model")

        def both(address):
            one = bench.quantize(shards[1], address)
            print(f"  convert's rate over quantize's: "
                  f"{bench.convert(address) / one:.2f}", flush=True)

        both("local:cpu")
        if options.quantd:
            with Server(options.quantd, folder) as server:
                both(server.address)
                bench.memory("server", server.peak(), server.bound())
    return 1 if bench.exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
