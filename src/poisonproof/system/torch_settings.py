"""PyTorch as every base classifier finds it: one thread, deterministic algorithms, a seed; put back afterwards."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from poisonproof.errors import PoisonproofError, missing_extra

DEVICES = ("cpu", "cuda")
# Errors of the machine come as RuntimeError like any other; these words tell them apart.
MACHINE_GAVE_OUT = ("DefaultCPUAllocator", "out of memory", "CUDA error", "CUDNN_STATUS", "CUBLAS_STATUS")

_settings = threading.RLock()


def imported_torch() -> Any:
    """PyTorch, imported when a network is used and not before."""
    try:
        import torch
    except ImportError:
        raise missing_extra("A network", "PyTorch", "torch") from None
    return torch


@contextmanager
def settled(seed: int, device: str) -> Iterator[Any]:
    """PyTorch with settings on which no bit can depend: whatever the caller has set is put back afterwards.

    Sums of floats depend on the number of threads, and some algorithms on chance, so there is one thread and no such
    algorithm (one that has no deterministic form raises). The settings belong to the process, so in threads one
    network runs at a time; processes run side by side. What the machine is to blame for (no memory, a broken GPU) is
    raised as MemoryError or OSError, so that nobody takes it for a property of the training samples.
    """
    torch = imported_torch()
    _check_device(torch, device)
    backends = torch.backends
    with (
        _settings,
        _set(torch.get_num_threads, torch.set_num_threads, 1),
        _deterministic(torch),
        _set(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest"),
        _set(torch.get_default_dtype, torch.set_default_dtype, torch.float32),
        _attribute(backends.mkldnn, "enabled", True),
        _attribute(getattr(backends.mkldnn, "conv", None), "fp32_precision", "ieee"),
        _attribute(backends.cudnn, "enabled", True),
        _attribute(backends.cudnn, "benchmark", False),
        _attribute(backends.cudnn, "deterministic", True),
        _attribute(backends.cudnn, "allow_tf32", False),
        torch.random.fork_rng(devices=[] if device == "cpu" else [torch.device(device)]),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast("cpu", enabled=False),
        torch.autocast("cuda", enabled=False),
        nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu"),
    ):
        seed_generators(torch, seed, device)
        try:
            yield torch
        except RuntimeError as error:
            if not any(word in str(error) for word in MACHINE_GAVE_OUT):
                raise
            first = str(error).strip().splitlines()[0]
            kind = MemoryError if "out of memory" in first or "Allocator" in first else OSError
            raise kind(f"the network could not be run: {first}") from None


@contextmanager
def seeded_if_loaded(seed: int) -> Iterator[None]:
    """PyTorch with one thread and its global generator seeded, for learners that use it by themselves.

    Nothing if nobody has imported PyTorch.
    """
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "default_generator"):
        yield
        return
    with _set(torch.get_num_threads, torch.set_num_threads, 1), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def seed_generators(torch: Any, seed: int, device: str) -> None:
    """Seed what PyTorch draws from, on the processor and on the device."""
    torch.default_generator.manual_seed(seed)
    if device != "cpu":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


@contextmanager
def _set(get: Callable[[], Any], put: Callable[[Any], Any], value: Any) -> Iterator[None]:
    before = get()
    put(value)
    try:
        yield
    finally:
        put(before)


def _attribute(owner: Any, name: str, value: Any) -> AbstractContextManager[None]:
    """The attribute at that value, in a version of PyTorch that has it."""
    if owner is None:
        return nullcontext()
    return _set(lambda: getattr(owner, name), lambda new: setattr(owner, name, new), value)


def _deterministic(torch: Any) -> AbstractContextManager[None]:
    return _set(
        lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        lambda how: torch.use_deterministic_algorithms(how[0], warn_only=how[1]),
        (True, False),
    )


def _check_device(torch: Any, device: str) -> None:
    if not isinstance(device, str) or device.partition(":")[0] not in DEVICES:
        raise PoisonproofError(
            f"The 'device' parameter must be 'cpu', 'cuda' or 'cuda:NUMBER'. Got {device!r} instead."
        )
    if device != "cpu":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # CUDA's condition for deterministic products
        if not torch.cuda.is_available():
            raise OSError(f"PyTorch finds no GPU for device '{device}' on this machine; use device='cpu'.")
