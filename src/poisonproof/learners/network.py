"""Any PyTorch network as a base classifier: a function of its training samples and its seed, to the bit.

Samples are classified one at a time, because the last bits of a product depend on the shape of the batch: of 2,000
scores of a Network-in-Network, half differ between batches of 1 and of 10. The weights are kept as arrays, so that a
fitted network can be stored without pickle.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from poisonproof.errors import PoisonproofError, WrongTypeError, missing_extra
from poisonproof.samples.labels import classes_and_codes
from poisonproof.system.determinism import setting, settings_lock

DEVICES = ("cpu", "cuda")
# Errors of the machine come as RuntimeError like any other; these words tell them apart.
MACHINE_GAVE_OUT = ("DefaultCPUAllocator", "out of memory", "CUDA error", "CUDNN_STATUS", "CUBLAS_STATUS")


class TorchClassifier(ClassifierMixin, BaseEstimator):
    """A network trained by stochastic gradient descent on cross-entropy; the class of the highest score.

    Scores are a function of the training samples in their order, of ``random_state`` and of the sample: not of its
    batch, of threads or of what else the process does with PyTorch. On another device, processor or version of
    PyTorch the last bits may be others.

    Parameters
    ----------
    module : callable
        ``module(shape, n_classes)`` builds a fresh ``torch.nn.Module`` that gives an array (samples, n_classes) for
        samples of a shape: (features,) of plain vectors, (channels, height, width) of images. Images come as
        (height, width) or (height, width, channels).
    epochs : int
        How often all training samples are seen.
    batch_size : int
        Training samples for one step; a last one left alone joins the batch before it, since batch norm needs two.
    learning_rate : float
        Of the first step.
    milestones : sequence of int
        After these epochs the learning rate is multiplied by ``decay``.
    decay : float
    momentum : float
        Nesterov's.
    weight_decay : float
        Strength of the L2 penalty.
    standardise : bool
        Take away the mean of the training samples and divide by their standard deviation, of each channel or feature.
    crop : int
        Move training images by up to so many pixels in both directions, at random; black comes in at the border.
    mirror : bool
        Mirror every other training image left to right, at random.
    device : "cpu", "cuda" or "cuda:NUMBER"
    random_state : int, RandomState or None
        Seeds the weights, the order of samples and the crops. `FiniteAggregationClassifier` sets it to the base
        classifier's index.

    Attributes
    ----------
    classes_ : array
    weights_ : dict
        Arrays by their names in the module.
    mean_, deviation_ : arrays
        Of each channel or feature.
    """

    answers_one_by_one = True  # see poisonproof.samples.batches

    def __init__(
        self,
        module: Any,
        *,
        epochs: int = 200,
        batch_size: int = 128,
        learning_rate: float = 0.1,
        milestones: Sequence[int] = (60, 120, 160),
        decay: float = 0.2,
        momentum: float = 0.9,
        weight_decay: float = 5e-4,
        standardise: bool = True,
        crop: int = 0,
        mirror: bool = False,
        device: str = "cpu",
        random_state: Any = None,
    ) -> None:
        self.module = module
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.milestones = milestones
        self.decay = decay
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.standardise = standardise
        self.crop = crop
        self.mirror = mirror
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train on vectors (n, features) or images (n, height, width[, channels])."""
        X, y = validate_data(self, X, y, allow_nd=True)
        check_classification_targets(y)
        self.classes_, codes = classes_and_codes(self, y)
        self._check_parameters(X)
        self.sample_shape_ = X.shape[1:]
        self.seed_ = _seed(self.random_state)
        self.mean_, self.deviation_ = _mean_and_deviation(_channels_last(X), self.standardise)
        with settled(self.seed_, self.device) as torch:
            module = self._built(torch)
            self._train(torch, module, X, codes)
            self.weights_ = {name: np.array(value.cpu().numpy()) for name, value in module.state_dict().items()}
        if not all(np.isfinite(weights).all() for weights in self.weights_.values()):
            raise PoisonproofError(
                "The network's weights did not stay finite in training; choose a smaller learning_rate.",
                code="learner.not-finite",
            )
        return self

    def decision_function(self, X: Any) -> NDArray[np.float32]:
        """Scores before the softmax, an array (n, classes)."""
        check_is_fitted(self)
        X = validate_data(self, X, allow_nd=True, reset=False)
        if X.shape[1:] != self.sample_shape_:
            raise PoisonproofError(
                f"The network takes samples of shape {self.sample_shape_}. Got {X.shape[1:]}.",
                code="learner.wrong-shape",
            )
        scores = np.empty((len(X), len(self.classes_)), np.float32)
        with settled(self.seed_, self.device) as torch, torch.inference_mode():
            module = self._built(torch)
            module.load_state_dict({name: torch.tensor(value) for name, value in self.weights_.items()})
            module.eval()
            for row in range(len(X)):
                seed_generators(torch, self.seed_, self.device)
                scores[row] = module(self._fed(torch, X[row : row + 1])).cpu().numpy()[0]
        wrong = np.flatnonzero(~np.isfinite(scores).all(axis=1))
        if len(wrong):
            raise PoisonproofError(
                f"The network's scores of sample {wrong[0]} are not finite: its values are too large.",
                code="learner.not-finite",
            )
        return scores

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The softmax of the scores, an array (n, classes)."""
        scores = self.decision_function(X).astype(np.float64)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest score; ties go to the smaller one."""
        best = self.decision_function(X).argmax(axis=1)
        return self.classes_[best]

    def _train(self, torch: Any, module: Any, X: NDArray[Any], codes: NDArray[np.int64]) -> None:
        rng = np.random.default_rng(self.seed_)
        parameters = list(module.parameters())
        speeds = [torch.zeros_like(parameter) for parameter in parameters]
        module.train()
        for epoch in range(self.epochs):
            for batch in _batches(rng.permutation(len(X)), self.batch_size):
                images = _moved(X[batch], self.crop, self.mirror, rng)
                targets = torch.tensor(codes[batch]).to(self.device)
                torch.nn.functional.cross_entropy(module(self._fed(torch, images)), targets).backward()
                self._step(torch, parameters, speeds, self._rate(epoch))

    def _rate(self, epoch: int) -> float:
        return float(self.learning_rate * self.decay ** sum(epoch >= milestone for milestone in self.milestones))

    def _step(self, torch: Any, parameters: list[Any], speeds: list[Any], rate: float) -> None:
        """One of Nesterov's; torch.optim takes the same one and a second to be imported, in every worker."""
        with torch.no_grad():
            for parameter, speed in zip(parameters, speeds, strict=True):
                if parameter.grad is not None:
                    slope = parameter.grad.add(parameter, alpha=self.weight_decay)
                    speed.mul_(self.momentum).add_(slope)
                    parameter.add_(slope.add(speed, alpha=self.momentum), alpha=-rate)
                    parameter.grad = None

    def _built(self, torch: Any) -> Any:
        """A module as the seed makes it."""
        module = None if isinstance(self.module, torch.nn.Module) else self.module(self._shape, len(self.classes_))
        if not isinstance(module, torch.nn.Module):
            raise WrongTypeError(
                "The 'module' parameter of TorchClassifier must be a function of (shape, n_classes) that builds a "
                f"fresh torch.nn.Module. Got {type(self.module).__name__} instead."
            )
        return module.to(self.device)

    @property
    def _shape(self) -> tuple[int, ...]:
        """What the module is told: the shape of a sample with its channels first."""
        shape = self.sample_shape_
        if len(shape) == 2:
            return (1, *shape)
        return shape if len(shape) == 1 else (shape[-1], *shape[:-1])

    def _fed(self, torch: Any, X: NDArray[Any]) -> Any:
        """Samples as the module is fed them: standardised, in single precision, channels first."""
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is told of where it matters
            values = ((_channels_last(X) - self.mean_) / self.deviation_).astype(np.float32)
        return torch.tensor(np.ascontiguousarray(np.moveaxis(values, -1, 1))).to(self.device)

    def _check_parameters(self, X: NDArray[Any]) -> None:
        for name in ("epochs", "batch_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise PoisonproofError(
                    f"The '{name}' parameter of TorchClassifier must be a whole number ≥ 1. Got {value!r} instead.",
                    code="learner.parameter",
                )
        if (self.crop or self.mirror) and X.ndim < 3:
            raise PoisonproofError(
                f"'crop' and 'mirror' move images, (n, height, width) or (n, height, width, channels). Got {X.shape}.",
                code="learner.parameter",
            )


def _channels_last(X: NDArray[Any]) -> NDArray[Any]:
    """Samples with an axis of channels at the end; plain vectors as they are."""
    return X[..., None] if X.ndim == 3 else X


def _seed(random_state: Any) -> int:
    """A whole number as it is, else one that is drawn."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def _mean_and_deviation(X: NDArray[Any], wanted: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of each channel or feature; a deviation of 0 counts as 1. If they are not wanted, 0 and 1."""
    if not wanted:
        return np.zeros(X.shape[-1]), np.ones(X.shape[-1])
    axes = tuple(range(X.ndim - 1))
    mean = X.mean(axis=axes, dtype=np.float64)
    deviation = X.std(axis=axes, dtype=np.float64)
    return mean, np.where(deviation > 0, deviation, 1.0)


def _batches(order: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    starts = list(range(0, len(order), size))
    if len(order) % size == 1 and len(starts) > 1 and size > 1:
        starts.pop()
    yield from np.split(order, starts[1:])


def _moved(images: NDArray[Any], crop: int, mirror: bool, rng: np.random.Generator) -> NDArray[Any]:
    """Images (n, height, width[, channels]) cropped and mirrored at random."""
    if mirror:
        turned = rng.random(len(images)) < 0.5
        images[turned] = images[turned, :, ::-1]
    if not crop:
        return images
    height, width = images.shape[1:3]
    wide = np.pad(images, [(0, 0), (crop, crop), (crop, crop)] + [(0, 0)] * (images.ndim - 3))
    corners = rng.integers(0, 2 * crop + 1, (len(images), 2))
    return np.stack([image[y : y + height, x : x + width] for image, (y, x) in zip(wide, corners, strict=True)])


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
    if not isinstance(device, str) or device.partition(":")[0] not in DEVICES:
        raise PoisonproofError(
            f"The 'device' parameter must be 'cpu', 'cuda' or 'cuda:NUMBER'. Got {device!r} instead.",
            code="device.unknown",
        )
    if device != "cpu":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # CUDA's condition for deterministic products
        if not torch.cuda.is_available():
            raise OSError(f"PyTorch finds no GPU for device '{device}' on this machine; use device='cpu'.")
    backends = torch.backends
    with (
        settings_lock,
        setting(torch.get_num_threads, torch.set_num_threads, 1),
        _deterministic(torch),
        setting(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest"),
        setting(torch.get_default_dtype, torch.set_default_dtype, torch.float32),
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


def seed_generators(torch: Any, seed: int, device: str) -> None:
    """Seed what PyTorch draws from, on the processor and on the device."""
    torch.default_generator.manual_seed(seed)
    if device != "cpu":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


def _attribute(owner: Any, name: str, value: Any) -> AbstractContextManager[None]:
    """The attribute at that value, in a version of PyTorch that has it."""
    if owner is None:
        return nullcontext()
    return setting(lambda: getattr(owner, name), lambda new: setattr(owner, name, new), value)


def _deterministic(torch: Any) -> AbstractContextManager[None]:
    return setting(
        lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        lambda how: torch.use_deterministic_algorithms(how[0], warn_only=how[1]),
        (True, False),
    )
