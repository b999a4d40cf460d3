"""Memory of `quantd.calibrate`.

memory.py FOLDER RESULTS.json

A Llama of 2 GB in bf16 is calibrated from its directory: the peak may exceed
the process's memory before it by at most 1.2 times the weights. A tiny Llama
is calibrated with 10^6 tokens: memory after them may exceed that after 10^5 by
at most 4 MB. Exit code 1 if a limit is exceeded.
"""

import json
import os
import pathlib
import resource
import subprocess
import sys

import torch
import transformers

BIG = dict(vocab_size=32000, hidden_size=2048, num_hidden_layers=18, num_attention_heads=16,
           num_key_value_heads=8, intermediate_size=6144, tie_word_embeddings=False)
TINY = dict(vocab_size=256, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, intermediate_size=128, tie_word_embeddings=False)
LENGTH = 512
MARKS = (10**5, 10**6)


def resident():
    """Returns the bytes of memory that the process has now."""
    pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def make(folder, sizes):
    torch.manual_seed(47)
    torch.set_default_dtype(torch.bfloat16)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).save_pretrained(folder)


def big(folder):
    """Returns the bytes of the weights, and the peak beyond the memory before."""
    import quantd

    before = resident()
    quantd.calibrate(folder, [torch.arange(LENGTH)[None]] * 2, quantctl=os.environ["QUANTCTL"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    return {"weights": weights, "peak": peak, "ok": peak <= 1.2 * weights}


def tiny(folder):
    """Returns memory after each number of tokens."""
    import quantd

    seen = {}

    def batches():
        for count in range(LENGTH, MARKS[-1] + 2 * LENGTH, LENGTH):
            # The batch before this one is measured.
            for mark in MARKS:
                if count > mark + LENGTH and mark not in seen:
                    seen[mark] = resident()
            yield torch.randint(256, (1, LENGTH))

    quantd.calibrate(folder, batches(), percentile=99.9, quantctl=os.environ["QUANTCTL"])
    growth = seen[MARKS[1]] - seen[MARKS[0]]
    return {"after": seen, "growth": growth, "ok": growth <= 4 << 20}


def child(step, folder):
    """Runs a step in a process of its own."""
    done = subprocess.run([sys.executable, __file__, step, folder], check=True,
                          capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    folder, results = map(pathlib.Path, sys.argv[1:])
    found = {"torch": torch.__version__, "transformers": transformers.__version__}
    for step in ("big", "tiny"):
        child(f"make-{step}", folder / step)
        found[step] = child(step, folder / step)
    results.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(0 if found["big"]["ok"] and found["tiny"]["ok"] else 1)


if sys.argv[1] in ("big", "tiny"):
    torch.set_num_threads(1)
    print(json.dumps({"big": big, "tiny": tiny}[sys.argv[1]](pathlib.Path(sys.argv[2]))))
elif sys.argv[1].startswith("make-"):
    make(sys.argv[2], {"make-big": BIG, "make-tiny": TINY}[sys.argv[1]])
    print("{}")
else:
    main()
