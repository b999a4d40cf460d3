"""Tensors in and out: arrays, quantized tensors, their parts and files."""
