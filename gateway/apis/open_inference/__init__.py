"""The Open Inference Protocol (V2), as used by KServe's and Triton's clients."""
