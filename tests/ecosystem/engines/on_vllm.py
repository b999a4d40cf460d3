"""Runs vLLM's own loader on a CPU, with dequantize.py in place of its kernels,
or with vLLM's emulation of them, which also quantizes activations."""

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
import torch  # noqa: E402
import vllm  # noqa: E402
import vllm.v1.engine.core  # noqa: E402,F401
import vllm.v1.engine.llm_engine  # noqa: E402,F401
import vllm.v1.worker.cpu_worker  # noqa: E402,F401
from vllm.model_executor.kernels.linear.nvfp4 import emulation  # noqa: E402
from vllm.model_executor.layers import fused_moe, linear  # noqa: E402
from vllm.model_executor.layers.quantization.utils import (  # noqa: E402
    nvfp4_emulation_utils)
from vllm.model_executor.model_loader import base_loader  # noqa: E402

import dequantize  # noqa: E402
import rounding  # noqa: E402

VERSION = f"vLLM {vllm.__version__}"
_LAYERS = "vllm.model_executor.layers."
_QUANTIZATION = _LAYERS + "quantization."
_MODULES = [
    _QUANTIZATION + "compressed_tensors.compressed_tensors_moe."
    "compressed_tensors_moe_" + name
    for name in ("w4a4_nvfp4", "w4a4_mxfp4", "w8a8_fp8", "w8a8_mxfp8")
] + [_QUANTIZATION + name for name in ("modelopt", "fp8", "mxfp4")]
_PARTS = {"qkv_proj": ("q_proj", "k_proj", "v_proj"),
          "gate_up_proj": ("gate_proj", "up_proj")}
_sums = {}
# The quantized inputs: None, "engine" for those of vLLM's emulation, or the
# largest inputs by module, for rounding.py.
_inputs = None


class _NoKernel:
    """Replaces a kernel, whose attributes a scheme uses before weights are loaded."""

    def __getattr__(self, name):
        return lambda *arguments, **named: None


def _kernel():
    return emulation.EmulationNvFp4LinearKernel(None) \
        if _inputs == "engine" else _NoKernel()


def _backend(function):
    """Returns a choice of kernels for experts that neither pads nor permutes weights."""
    oracle = sys.modules[function.__module__]
    kinds = [value for value in vars(oracle).values()
             if isinstance(value, enum.EnumMeta) and "Backend" in
             value.__name__ and "Unquantized" not in value.__name__]
    names = ("EMULATION", "TRITON", "MARLIN")
    return next(kind[name] for kind in kinds for name in names
                if name in kind.__members__)


class _Linear(linear.UnquantizedLinearMethod):
    """A product with inputs that numpy has quantized."""

    def __init__(self, amax):
        super().__init__()
        self.amax = amax

    def process_weights_after_loading(self, layer):
        pass

    def apply(self, layer, x, bias=None):
        out = rounding.nvfp4(x, self.amax) @ layer.weight.t()
        return out if bias is None else out + bias


class _Experts(fused_moe.UnquantizedFusedMoEMethod):
    """Experts whose two products have quantized inputs. vLLM emulates them only
    on GPUs."""

    is_monolithic = False

    def __init__(self, layer, first, second):
        super().__init__(layer.moe_config)
        self.first, self.second = first, second

    def process_weights_after_loading(self, layer):
        pass

    def apply(self, layer, x, topk_weights, topk_ids, **shared):
        out, x = torch.zeros_like(x), self.first(x)
        for expert in range(layer.w13_weight.shape[0]):
            rows, places = (topk_ids == expert).nonzero(as_tuple=True)
            gate, up = (x[rows] @ layer.w13_weight[expert].t()).chunk(2, -1)
            inner = self.second(torch.nn.functional.silu(gate) * up)
            scale = topk_weights[rows, places, None].to(x.dtype)
            out.index_add_(0, rows, inner @ layer.w2_weight[expert].t() * scale)
        return out


def _largest(name, leaves, experts=False):
    """Returns the largest input of the parts of a fused layer, or 0."""
    layer = re.search(r"layers\.\d+\.|$", name)[0]
    return max((amax for part, amax in _inputs.items() if layer in part and
                part.endswith(leaves) and ("experts" in part) == experts), default=0)


def _of_experts(layer, prefix):
    """Returns vLLM's rounding with the largest scale of all experts, as its
    emulation of experts does."""
    stored = getattr(layer, prefix + "input_global_scale", None)
    scales = 1 / layer.get_parameter(prefix + "input_scale").data \
        if stored is None else stored.data
    scale = scales.min().float()
    return lambda x: nvfp4_emulation_utils.ref_nvfp4_quant_dequant(x, scale, 16)


def _quantize_inputs(name, module, experts):
    """Returns the method of a layer with quantized inputs, or None."""
    if experts and _inputs == "engine":
        if hasattr(module, "w13_input_scale") or hasattr(
                module, "w13_input_global_scale"):
            return _Experts(module, *(_of_experts(module, prefix)
                                      for prefix in ("w13_", "w2_")))
    elif experts:
        first = _largest(name, ("gate_proj", "up_proj"), experts)
        second = _largest(name, ("down_proj",), experts)
        if first:
            return _Experts(module, lambda x: rounding.nvfp4(x, first),
                            lambda x: rounding.nvfp4(x, second))
    elif _inputs != "engine":
        leaf = name.rpartition(".")[2]
        amax = _largest(name, _PARTS.get(leaf, (leaf,)))
        return _Linear(amax) if amax else None
    return None


def _replace_kernels():
    for name in _MODULES:
        importlib.import_module(name)
    for name, module in list(sys.modules.items()):
        if not name.startswith("vllm."):
            continue
        for member, function in list(vars(module).items()):
            if re.fullmatch(r"init_\w+_linear_kernel", member):
                setattr(module, member, lambda *a, **k: _kernel())
            elif re.fullmatch(r"select_(nvfp4|fp8|mxfp8|mxfp4)_moe_backend",
                              member):
                chosen = (_backend(function), None)
                setattr(module, member, lambda *a, _is=chosen, **k: _is)


def _settle(model, *arguments):
    """Runs after the loader has filled every parameter."""
    for name, module in list(model.named_modules()):
        experts = isinstance(module, fused_moe.RoutedExperts)
        method = _inputs and _quantize_inputs(name, module, experts)
        if isinstance(module, linear.LinearBase):
            if _inputs == "engine" and hasattr(module, "weight_scale"):
                continue
            weight = dequantize.plain(module)
            if weight is not None:
                module.weight = weight
                module.quant_method = linear.UnquantizedLinearMethod()
            module.quant_method = method or module.quant_method
        elif experts:
            for prefix in ("w13_", "w2_"):
                weight = dequantize.plain(module, prefix)
                if weight is not None:
                    setattr(module, prefix + "weight", weight)
                    module._replace_quant_method(
                        fused_moe.UnquantizedFusedMoEMethod(module.moe_config))
            if method:
                module._replace_quant_method(method)
    _sums.update(dequantize.checksums(model))
    _process(model, *arguments)


_process = base_loader.process_weights_after_loading
base_loader.process_weights_after_loading = _settle
_replace_kernels()


def run(directory, prompts, words, inputs=None):
    """Returns the log-probabilities of every token after every token of the
    prompts, and a checksum of every parameter of the engine."""
    global _inputs
    _inputs = inputs
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
