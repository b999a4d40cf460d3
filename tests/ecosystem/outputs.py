"""Outputs of a model that transformers loads, for a few tokens."""

import torch
import transformers

transformers.logging.set_verbosity_error()


def of(folder, **options):
    """Returns the model and its outputs, for the same tokens at every call.
    Raises if the files lack a weight or have an unknown one."""
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = (transformers.AutoModel if config.model_type == "bert"
            else transformers.AutoModelForCausalLM)
    model, report = kind.from_pretrained(
        folder, output_loading_info=True, dtype="auto", **options)
    wrong = {key: value for key, value in report.items() if value}
    if wrong:
        raise ValueError(f"{folder}: {wrong}")
    model.eval()
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(0, 500, (4, 32), generator=generator)
    with torch.no_grad():
        made = model(input_ids=tokens)
    values = made[0]
    return model, values.float().flatten()


def cosine(a, b):
    return torch.cosine_similarity(a.double(), b.double(), 0).item()
