"""Networks in ONNX, opened so that no answer depends on company: one thread, on the processor, one sample at a time."""

from __future__ import annotations

from typing import Any

from poisonproof.errors import PoisonproofError, missing_extra


def opened_network(content: bytes, name: str, extra: str) -> Any:
    """A session of onnxruntime with the network in these bytes; the extra is the one to install where that is missing.

    Running it releases Python's lock, so threads can share a session.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise missing_extra(f"The encoder {name}", "onnxruntime", extra) from error
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(content, settings, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise PoisonproofError(f"The encoder {name} is no ONNX model that onnxruntime opens ({error}).") from error
