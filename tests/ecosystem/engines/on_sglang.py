"""Runs SGLang's own loader on a CPU, with dequantize.py in place of its kernels."""

import array
import os
import sys
import types

os.environ.update(SGLANG_USE_CPU_ENGINE="1", TORCHDYNAMO_DISABLE="1")


class _NoKernels(types.ModuleType):
    """Replaces the package of kernels, which does not support a CPU."""
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments, **named: 1 / 0


sys.modules["sgl_kernel"] = _NoKernels("sgl_kernel")

import numpy  # noqa: E402
import sglang  # noqa: E402
import torch  # noqa: E402
from sglang.benchmark import one_batch  # noqa: E402
from sglang.srt.layers import linear  # noqa: E402
from sglang.srt.layers.attention.torch_native_backend import (  # noqa: E402
    TorchNativeAttnBackend)
from sglang.srt.layers.moe.fused_moe_triton import (  # noqa: E402
    FusedMoE, layer as moe_layer)
from sglang.srt.layers.quantization import unquant  # noqa: E402
from sglang.srt.managers.schedule_batch import Req  # noqa: E402
from sglang.srt.model_executor import model_runner  # noqa: E402
from sglang.srt.model_loader.loader import DefaultModelLoader  # noqa: E402
from sglang.srt.models import registry  # noqa: E402,F401
from sglang.srt.runtime_context import override_platform  # noqa: E402
from sglang.srt.sampling.sampling_params import SamplingParams  # noqa: E402
from sglang.srt.server_args import PortArgs, ServerArgs  # noqa: E402

import dequantize  # noqa: E402

VERSION = f"SGLang {sglang.__version__}"
_sums = {}


def _settle(model, device):
    """Runs after the loader has filled every parameter."""
    for module in list(model.modules()):
        if isinstance(module, linear.LinearBase):
            weight = dequantize.plain(module)
            if weight is not None:
                module.weight = weight
                module.quant_method = unquant.UnquantizedLinearMethod()
        elif isinstance(module, FusedMoE):
            up_first = getattr(module.quant_method,
                               "load_up_proj_weight_first", False)
            for prefix in ("w13_", "w2_"):
                weight = dequantize.plain(module, prefix)
                if weight is None:
                    continue
                if up_first and prefix == "w13_":
                    weight.data = weight.data.roll(weight.shape[1] // 2, 1)
                setattr(module, prefix + "weight", weight)
                module.quant_method = unquant.UnquantizedFusedMoEMethod()
                module.quant_method.create_moe_runner(
                    module, module.moe_runner_config)
    _sums.update(dequantize.checksums(model))
    _process(model, device)


# On a CPU the engine queries CUDA's capability, and would pad weights for its
# CPU kernels.
torch.cuda.get_device_capability = lambda *device: (10, 0)
model_runner.adjust_config_with_unaligned_cpu_tp = lambda config, *rest: config
# NVFP4 kernels scale experts' outputs by the routing weights. Without CUDA the
# engine scales them afterwards.
moe_layer._fuses_routed_scaling_factor_in_topk = lambda *kinds: False
# PyTorch's attention does not support sinks, whose parameters are compared
# anyway. It reads keys from a cache, where DeepSeek's do not have their full
# size.
_extend = TorchNativeAttnBackend.forward_extend


def _attention(backend, q, k, v, layer, batch, save_kv_cache=True, sinks=None,
               **named):
    if save_kv_cache:
        return _extend(backend, q, k, v, layer, batch, **named)
    rows = [part.view(len(part), -1, size).transpose(0, 1).split(
        batch.extend_seq_lens.tolist(), 1) for part, size in (
            (q, layer.qk_head_dim), (k, layer.qk_head_dim),
            (v, layer.v_head_dim))]
    return torch.cat([torch.nn.functional.scaled_dot_product_attention(
        *one, is_causal=True, scale=layer.scaling).transpose(0, 1)
        for one in zip(*rows)])


TorchNativeAttnBackend.forward_extend = _attention
_process = DefaultModelLoader.postprocess_weights
DefaultModelLoader.postprocess_weights = staticmethod(_settle)


def _requests(prompts):
    """Makes a request for each prefix of each prompt, since the engine returns
    only the probabilities after the last token."""
    greedy = SamplingParams(temperature=0, max_new_tokens=1)
    for number, prompt in enumerate(prompts):
        for size in range(1, len(prompt) + 1, 3):
            request = Req(rid=f"{number}.{size}", origin_input_text="",
                          origin_input_ids=array.array("q", prompt[:size]),
                          sampling_params=greedy)
            request.full_untruncated_fill_ids = request.origin_input_ids
            request.logprob_start_len = -1
            request.extend_end = size
            yield request


def run(directory, prompts, words):
    """Returns the log-probabilities of every token after prefixes of the
    prompts, and a checksum of every parameter of the engine."""
    server = ServerArgs(
        model_path=str(directory), device="cpu", dtype="bfloat16",
        attention_backend="intel_amx", sampling_backend="pytorch",
        disable_cuda_graph=True, disable_radix_cache=True,
        max_running_requests=64, max_total_tokens=4096, context_length=64,
        random_seed=0, skip_server_warmup=True, mem_fraction_static=0.1)
    server.resolve_once()
    one_batch._set_envs_and_config(server)
    one_batch.publish(server, role="scheduler", ranks=one_batch.SpawnRanks(
        world_rank=one_batch.spawn_world_rank(server, tp_rank=0, pp_rank=0),
        gpu_id=0))
    one_batch._init_process_global_configs()
    with override_platform(is_blackwell=True):
        runner, _ = one_batch.load_model(
            server, PortArgs.init_new(server), 0, 0)
    _, logits, _ = runner.extend(list(_requests(prompts)))
    rows = torch.log_softmax(logits[:, :words].double(), -1)
    return rows.numpy().astype(numpy.float64), _sums
