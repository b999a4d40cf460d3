"""Loads the output of `quantctl convert` in an engine: every kind of model in
every dialect and format, and the same directory decoded by quantctl. Parameters
and log-probabilities of both must agree.

python cells.py ENGINE WORK RESULTS.json [FILTER...]
"""

import collections
import datetime
import hashlib
import importlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import traceback

import numpy

import models

HERE = pathlib.Path(__file__).resolve().parent
QUANTCTL = os.environ["QUANTCTL"]
# Dialect, format and further options; "amax" adds scales of activations, and
# with "inputs rounded" the engine's emulation uses them.
WAYS = [
    ("compressed-tensors", "nvfp4", ""),
    ("compressed-tensors", "nvfp4", "amax"),
    ("compressed-tensors", "fp8", ""),
    ("compressed-tensors", "fp8", "amax"),
    ("compressed-tensors", "fp8_dynamic", ""),
    ("compressed-tensors", "fp8_block", ""),
    ("compressed-tensors", "mxfp8", ""),
    ("compressed-tensors", "mxfp4", ""),
    ("compressed-tensors", "nvfp4", "attention in fp8_dynamic"),
    ("modelopt", "nvfp4", ""),
    ("modelopt", "nvfp4", "amax"),
    ("modelopt", "fp8", "amax"),
    ("modelopt", "mxfp8", ""),
    ("compressed-tensors", "nvfp4", "inputs rounded"),
    ("modelopt", "nvfp4", "inputs rounded"),
    ("deepseek", "fp8_block", ""),
    ("gpt-oss", "mxfp4", ""),
]
# The models whose inputs are rounded, and their quantized modules.
ROUNDED = ("llama", "qwen3-moe", "gpt-oss")
MODULES = re.compile(r".*_proj")
ATTENTION = "re:.*self_attn.*_proj.*=fp8_dynamic"
# Known causes of failures: the engine, the cell, its message, who causes it,
# and why. If an engine cannot load a correct file, the cause is the engine's.
# Any other failure counts as wrong.
CAUSES = [
    ("sglang", "compressed-tensors mxfp", "No compressed-tensors compatible",
     "engine", "SGLang does not implement MX formats of compressed-tensors"),
    ("sglang", "(llama|qwen2.5-vl) modelopt mxfp8", "", "engine",
     "dense layers look for `weight_scale_inv`, but ModelOpt writes "
     "`weight_scale`. For Qwen2.5-VL SGLang reports this as an error "
     "(models/qwen2_5_vl.py, 962); for Llama it only logs it and leaves the "
     "scales uninitialized"),
    ("sglang", "gemma-3 modelopt mxfp8", "vision_tower", "engine",
     "SGLang compares ModelOpt's expressions as names "
     "(configs/model_config.py, 1892), and so treats the vision tower as "
     "quantized, without scales"),
    ("sglang", "mixtral modelopt", "28 of 17 parameters", "near",
     "SGLang uses another class than for the decoded model, with separate "
     "experts: log-probabilities agree to 2e-5, but parameters cannot be "
     "compared"),
    ("sglang", "llava", "'Conv2d' object has no attribute", "engine",
     "SGLang does not load the original either: it uses CLIPVisionModel as a "
     "language model (models/llava.py, 788)"),
    ("sglang", "llama deepseek fp8_block", "", "engine",
     "for LlamaForCausalLM SGLang renames `weight_scale_inv` (models/llama.py, "
     "724) and leaves the scales uninitialized"),
    ("sglang", "gpt-oss (?!gpt-oss)", "", "engine",
     "SGLang does not support quantized attention in gpt-oss "
     "(models/gpt_oss.py, 547): it reads the codes as weights, without their "
     "scales"),
    ("sglang", "deepseek-v3 compressed-tensors", "loaded_weight.shape", "engine",
     "SGLang fuses q_a_proj and kv_a_proj_with_mqa "
     "(models/deepseek_common/deepseek_weight_loader.py, 475), and so gets two "
     "global scales for a parameter of one element"),
]
EXACT = 1e-6
# Sums of rounded inputs can have another order.
ROUNDED_EXACT = 1e-5


def tensors(directory):
    """Yields name, shape and file of each tensor in a directory."""
    for path in sorted(directory.glob("*.safetensors")):
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        for name, value in header.items():
            if name != "__metadata__":
                yield name, value["shape"], path


def quantctl(*words):
    done = subprocess.run([QUANTCTL, *map(str, words)], capture_output=True,
                          text=True)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [""]
        return " ".join(lines)[:300]
    return None


def largest_inputs(model):
    """Returns a different largest input for each module. Some inputs exceed it,
    so that every wrong scale changes them."""
    draw = numpy.random.default_rng(47)
    return {name: float(draw.uniform(0.5, 3))
            for name in (name.removesuffix(".weight") for name, shape, _ in
                         tensors(model) if len(shape) == 2)
            if MODULES.fullmatch(name)}


def convert(model, out, dialect, kind, more):
    """Writes the converted directory and the decoded one. Returns quantctl's error or None."""
    words = ["--dialect", dialect, "--format", kind, "--server", "local:cpu"]
    if more in ("amax", "inputs rounded"):
        amax = {name.removesuffix(".weight"): 20.0
                for name, shape, _ in tensors(model) if len(shape) > 1} \
            if more == "amax" else largest_inputs(model)
        file = out.with_suffix(".amax.json")
        file.write_text(json.dumps(amax))
        words += ["--input-amax", file]
    elif more:
        words += ["--rule", ATTENTION]
    message = quantctl("convert", model, out, *words)
    return message or quantctl(
        "convert", out, f"{out}-plain", "--dialect", "none", "--format", "bf16")


def spoil(directory, out, name, factor):
    """Writes the model with one scale multiplied by a factor."""
    shutil.copytree(directory, out)
    for path in out.glob("*.safetensors"):
        data = bytearray(path.read_bytes())
        size = struct.unpack("<Q", data[:8])[0]
        value = json.loads(data[8:8 + size]).get(name)
        if value:
            at = 8 + size + value["data_offsets"][0]
            scale = struct.unpack("<f", data[at:at + 4])[0] * factor
            data[at:at + 4] = struct.pack("<f", scale)
            path.write_bytes(data)
            return
    raise KeyError(name)


def discard(out):
    for path in out.parent.glob(out.name + "*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def digest(directory, sources):
    """Returns a hash of the files that an engine reads and of the code that runs it."""
    sums = hashlib.sha256(sources)
    for path in sorted(directory.iterdir()):
        if path.is_file():
            sums.update(path.name.encode() + b"\0" + path.read_bytes())
    return sums.hexdigest()[:24]


class Engine:
    def __init__(self, name, work):
        self.name = name
        self.kept = work / "runs" / name
        self.kept.mkdir(parents=True, exist_ok=True)
        self.module = importlib.import_module("on_" + name)
        self.sources = b"".join((HERE / file).read_bytes() for file in (
            f"on_{name}.py", "dequantize.py", "rounding.py"))
        draw = numpy.random.default_rng(5)
        self.prompts = [[1, *draw.integers(4, 260, size).tolist()]
                        for size in (24, 17, 31, 9)]

    def run(self, directory, *inputs):
        """Returns log-probabilities and parameters, or the engine's last
        output. Reuses the result of an earlier run of the directory."""
        kept = self.kept / digest(
            directory, self.sources + repr(inputs).encode())
        answer, said = kept.with_suffix(".npz"), kept.with_suffix(".failed")
        if not answer.exists() and not said.exists():
            child = os.fork()
            if not child:
                self._child(directory, kept, inputs)
            os.waitpid(child, 0)
            if not answer.exists() and not said.exists():
                said.write_text("the engine's process died")
        if said.exists():
            return said.read_text()
        found = numpy.load(answer)
        return found["rows"], dict(found["sums"].tolist())

    def _child(self, directory, kept, inputs):
        """Runs a directory in this process, which was forked after the imports, and exits."""
        log = os.open(kept.with_suffix(".log"),
                      os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            rows, sums = self.module.run(
                directory, self.prompts, models.WORDS, *inputs)
            with open(kept.with_suffix(".part"), "wb") as file:
                numpy.savez(file, rows=rows, sums=numpy.array(
                    sorted(sums.items())))
            kept.with_suffix(".part").rename(kept.with_suffix(".npz"))
        except BaseException as error:
            traceback.print_exc()
            words = f"{type(error).__name__}: {error}".split("\n")[0]
            if not str(error):
                words += traceback.extract_tb(error.__traceback__)[-1].line
            kept.with_suffix(".failed").write_text(words[:300])
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)


def distance(one, other):
    """Returns the mean Kullback-Leibler divergence, infinite for NaN."""
    value = (numpy.exp(one) * (one - other)).sum(1).mean()
    return float(value) if numpy.isfinite(value) else float("inf")


def judge(quantized, plain, original):
    """Returns the outcome of a directory in a word, with figures or a message."""
    if isinstance(original, str):
        return dict(is_="not run", says=f"the original: {original}")
    if isinstance(plain, str):
        return dict(is_="WRONG", says=f"decoded: {plain}")
    if isinstance(quantized, str):
        return dict(is_="WRONG", says=quantized)
    differ = sorted(name for name in plain[1].keys() | quantized[1].keys()
                    if plain[1].get(name) != quantized[1].get(name))
    kl = distance(plain[0], quantized[0])
    result = dict(is_="exact" if kl < EXACT and not differ else "WRONG",
                  kl=kl, loss=distance(original[0], plain[0]))
    if differ:
        result["says"] = f"{len(differ)} of {len(plain[1])} parameters " \
            f"differ: {', '.join(differ[:3])}"
    return result


def judge_rounded(quantized, plain, original):
    """Returns the outcome of vLLM's emulation beside numpy's arithmetic."""
    for one in (quantized, plain, original):
        if isinstance(one, str):
            return dict(is_="WRONG", says=one)
    kl = distance(plain[0], quantized[0])
    return dict(is_="exact" if kl < ROUNDED_EXACT else "WRONG", kl=kl,
                loss=distance(original[0], plain[0]))


def keep(results, engine, cells):
    """Replaces earlier results of the cells that were run."""
    kept = json.loads(results.read_text()) if results.exists() else {}
    before = kept.get(engine.name, {}).get("cells", {})
    kept[engine.name] = dict(
        engine=engine.module.VERSION, date=datetime.date.today().isoformat(),
        commit=os.environ["QUANTCTL_COMMIT"], cells={**before, **cells})
    results.write_text(json.dumps(kept, indent=1) + "\n")


def main():
    name, work, results, *filters = sys.argv[1:]
    work = pathlib.Path(work).resolve()
    engine = Engine(name, work)
    made = models.make(work / "models")
    converted = work / "converted"
    shutil.rmtree(converted, ignore_errors=True)
    converted.mkdir()
    cells = {}

    def report(cell, result):
        result["is"] = result.pop("is_")
        for where, which, says, whose, why in CAUSES:
            if result["is"] in ("WRONG", "not run") and where == name and \
                    re.search(which, cell) and says in result.get("says", ""):
                result["why"] = why
                if result["is"] == "WRONG":
                    result["is"] = whose
        cells[cell] = result
        print(f"{cell}: {result['is']} " + " ".join(
            f"{key} {value:.1e}" if key in ("kl", "loss") else value
            for key, value in result.items() if key != "is"), flush=True)

    for model, directory in made.items():
        for dialect, kind, more in WAYS:
            cell = f"{model} {dialect} {kind}" + (f" {more}" if more else "")
            if filters and not any(re.search(word, cell) for word in filters):
                continue
            if (dialect == "gpt-oss") != (model == "gpt-oss") and \
                    dialect == "gpt-oss":
                continue  # the dialect is for this model only
            if more == "inputs rounded" and (model not in ROUNDED or
                                             name != "vllm"):
                continue
            out = converted / re.sub(r"[ .]", "-", cell)
            message = convert(directory, out, dialect, kind, more)
            if message:
                report(cell, dict(is_="refused", says=message))
                continue
            original = engine.run(directory)
            if more == "inputs rounded":
                by_numpy = engine.run(pathlib.Path(f"{out}-plain"),
                                      largest_inputs(directory))
                report(cell, judge_rounded(
                    engine.run(out, "engine"), by_numpy, original))
                if model == "llama":
                    # Half of the largest input.
                    wrong = out.with_name(out.name + "-wrong")
                    spoil(out, wrong, "model.layers.1.mlp.down_proj.input_" + (
                        "scale" if dialect == "modelopt" else "global_scale"),
                          0.5 if dialect == "modelopt" else 2)
                    report(f"control {dialect} {more}", judge_rounded(
                        engine.run(wrong, "engine"), by_numpy, original))
                discard(out)
                continue
            loads = not isinstance(original, str)
            plain = loads and engine.run(pathlib.Path(f"{out}-plain"))
            report(cell, judge(loads and engine.run(out), plain, original))
            if model == "llama" and (kind, more) == ("nvfp4", ""):
                wrong = out.with_name(out.name + "-wrong")
                spoil(out, wrong, "model.layers.1.mlp.down_proj.weight_" + (
                    "scale_2" if dialect == "modelopt" else "global_scale"), 1.05)
                report(f"control {dialect}",
                       judge(engine.run(wrong), plain, original))
            discard(out)
        keep(pathlib.Path(results), engine, cells)
    controls = [cell for cell in cells if cell.startswith("control")]
    blind = [cell for cell in controls if cells[cell]["is"] != "WRONG" or
             "kl" not in cells[cell] or cells[cell]["kl"] < EXACT]
    wrong = [cell for cell in cells if cells[cell]["is"] == "WRONG" and
             cell not in controls]
    print(dict(collections.Counter(
        result["is"] for cell, result in cells.items()
        if cell not in controls)))
    for cell in blind:
        print(f"BLIND: {cell} does not see a wrong scale")
    return 1 if blind or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
