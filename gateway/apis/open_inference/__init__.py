"""The Open Inference Protocol (V2), as KServe's clients and Triton's speak it."""
