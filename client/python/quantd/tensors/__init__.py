"""Arrays, quantized tensors, their parts, and files."""
