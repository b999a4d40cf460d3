"""Runs vLLM's own loader on a CPU, with dequantize.py in place of its kernels."""

import enum
import importlib
import os
import re
import sys

os.environ.update(
    VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_NO_USAGE_STATS="1",
    TORCHDYNAMO_DISABLE="1", VLLM_CPU_KVCACHE_SPACE="1",
    VLLM_CPU_OMP_THREADS_BIND="nobind")

import numpy  # noqa: E402
import vllm  # noqa: E402
import vllm.v1.engine.core  # noqa: E402,F401
import vllm.v1.engine.llm_engine  # noqa: E402,F401
import vllm.v1.worker.cpu_worker  # noqa: E402,F401
from vllm.model_executor.layers import fused_moe, linear  # noqa: E402
from vllm.model_executor.model_loader import base_loader  # noqa: E402

import dequantize  # noqa: E402

VERSION = f"vLLM {vllm.__version__}"
_LAYERS = "vllm.model_executor.layers."
_QUANTIZATION = _LAYERS + "quantization."
_MODULES = [
    _QUANTIZATION + "compressed_tensors.compressed_tensors_moe."
    "compressed_tensors_moe_" + name
    for name in ("w4a4_nvfp4", "w4a4_mxfp4", "w8a8_fp8", "w8a8_mxfp8")
] + [_QUANTIZATION + name for name in ("modelopt", "fp8", "mxfp4")]
_sums = {}


class _NoKernel:
    """The attributes of a kernel that a scheme uses before weights are loaded."""

    def __getattr__(self, name):
        return lambda *arguments, **named: None


def _backend(function):
    """Returns a choice of kernels for experts that neither pads nor permutes weights."""
    oracle = sys.modules[function.__module__]
    kinds = [value for value in vars(oracle).values()
             if isinstance(value, enum.EnumMeta) and "Backend" in
             value.__name__ and "Unquantized" not in value.__name__]
    names = ("EMULATION", "TRITON", "MARLIN")
    return next(kind[name] for kind in kinds for name in names
                if name in kind.__members__)


def _replace_kernels():
    for name in _MODULES:
        importlib.import_module(name)
    for name, module in list(sys.modules.items()):
        if not name.startswith("vllm."):
            continue
        for member, function in list(vars(module).items()):
            if re.fullmatch(r"init_\w+_linear_kernel", member):
                setattr(module, member, lambda *a, **k: _NoKernel())
            elif re.fullmatch(r"select_(nvfp4|fp8|mxfp8|mxfp4)_moe_backend",
                              member):
                chosen = (_backend(function), None)
                setattr(module, member, lambda *a, _is=chosen, **k: _is)


def _settle(model, *arguments):
    """Runs after the loader has filled every parameter."""
    for module in list(model.modules()):
        if isinstance(module, linear.LinearBase):
            weight = dequantize.plain(module)
            if weight is not None:
                module.weight = weight
                module.quant_method = linear.UnquantizedLinearMethod()
        elif hasattr(module, "_replace_quant_method") and hasattr(
                module, "moe_config") and isinstance(
                    module, fused_moe.RoutedExperts):
            for prefix in ("w13_", "w2_"):
                weight = dequantize.plain(module, prefix)
                if weight is not None:
                    setattr(module, prefix + "weight", weight)
                    module._replace_quant_method(
                        fused_moe.UnquantizedFusedMoEMethod(module.moe_config))
    _sums.update(dequantize.checksums(model))
    _process(model, *arguments)


_process = base_loader.process_weights_after_loading
base_loader.process_weights_after_loading = _settle
_replace_kernels()


def run(directory, prompts, words):
    """Returns the log-probabilities of every token after every token of the
    prompts, and a checksum of every parameter of the engine."""
    engine = vllm.LLM(
        str(directory), enforce_eager=True, max_model_len=64,
        dtype="bfloat16", max_num_seqs=4, max_logprobs=-1,
        skip_mm_profiling=True, enable_prefix_caching=False, seed=0)
    answers = engine.generate(
        [{"prompt_token_ids": prompt} for prompt in prompts],
        vllm.SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=-1,
                            detokenize=False), use_tqdm=False)
    rows = [[row[word].logprob for word in range(words)]
            for answer in answers for row in answer.prompt_logprobs[1:]]
    return numpy.array(rows, numpy.float64), _sums
