"""Networks: a base classifier like any other, to the bit, whatever else the process does with PyTorch."""

import sys
from functools import partial

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine

from poisonproof import FiniteAggregationClassifier, Split
from poisonproof.learners.inspection import describe
from poisonproof.learners.network import TorchClassifier, _batches, _moved, imported_torch, settled
from poisonproof.samples.kinds import TrainingSet
from poisonproof.training.members import fit_member
from refused import refused
from research.learners import nin, nin_mirror
from research.network_in_network import network_in_network

torch = pytest.importorskip("torch")
nn = torch.nn

DIGITS = load_digits()
IMAGES = (DIGITS.images[:300] * 15).astype(np.uint8)
LABELS = DIGITS.target[:300]
WINE, KINDS = load_wine(return_X_y=True)


def small(shape, n_classes, width=6):
    channels, height, w = shape
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Flatten(),
        nn.Linear(width * height * w, n_classes),
    )


def layers(shape, n_classes):
    return nn.Sequential(nn.Linear(shape[0], 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, n_classes))


def stirred(shape, n_classes):
    """Draws numbers and mixes the batch even when it answers."""

    class Stirred(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = small(shape, n_classes)

        def forward(self, x):
            scores = self.inner(x)
            return scores + torch.randn_like(scores) + scores.sum(dim=0)

    return Stirred()


def quick(module=small, **options):
    return TorchClassifier(module, **{"epochs": 3, "batch_size": 16, "random_state": 5, **options})


def same(one, two):
    return one.weights_.keys() == two.weights_.keys() and all(
        np.array_equal(value, two.weights_[name]) for name, value in one.weights_.items()
    )


def test_the_recipe_and_the_network_are_the_papers():
    """Three stages of 5, 1, 1 · 5, 1, 1 · 3, 1, 1; batch norm; max, average and global average pooling."""
    network = network_in_network((3, 32, 32), 10)
    kinds = [type(layer).__name__ for layer in network]
    stage = ["Conv2d", "BatchNorm2d", "ReLU"] * 3
    assert kinds == [*stage, "MaxPool2d", *stage, "AvgPool2d", *stage, "AvgPool2d", "Flatten", "Linear"]
    convolutions = [layer for layer in network if isinstance(layer, nn.Conv2d)]
    assert [c.out_channels for c in convolutions] == [192, 160, 96, 192, 192, 192, 192, 192, 192]
    assert [c.kernel_size[0] for c in convolutions] == [5, 1, 1, 5, 1, 1, 3, 1, 1]
    assert network[-3].kernel_size == (8, 8)
    assert float(convolutions[3].weight.detach().std()) == pytest.approx((2 / (25 * 192)) ** 0.5, rel=0.02)
    for shape in ((1, 28, 28), (3, 48, 48), (2, 5, 9), (1, 1, 1)):
        assert network_in_network(shape, 7).eval()(torch.zeros(2, *shape)).shape == (2, 7)
    recipe = nin().get_params()
    assert [recipe[name] for name in ("epochs", "batch_size", "learning_rate", "milestones", "decay")] == [
        200,
        128,
        0.1,
        (60, 120, 160),
        0.2,
    ]
    assert [recipe[name] for name in ("momentum", "weight_decay", "crop", "mirror")] == [0.9, 5e-4, 4, False]
    assert nin_mirror().mirror


def test_training_is_what_pytorchs_own_steps_make_of_it():
    """The recipe written with torch.optim: Nesterov's momentum, weight decay, milestones."""
    model = quick(epochs=6, batch_size=64, milestones=(2, 4), random_state=1).fit(IMAGES[:40], LABELS[:40])
    fed = IMAGES[:40].astype(np.float64)
    fed = ((fed - fed.mean()) / fed.std()).astype(np.float32)[:, None]
    with settled(1, "cpu"):
        network = small((1, 8, 8), 10).train()
        steps = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
        falling = torch.optim.lr_scheduler.MultiStepLR(steps, [2, 4], 0.2)
        rng = np.random.default_rng(1)
        for _ in range(6):
            order = rng.permutation(40)
            steps.zero_grad()
            nn.functional.cross_entropy(network(torch.tensor(fed[order])), torch.tensor(LABELS[order])).backward()
            steps.step()
            falling.step()
    for name, value in network.state_dict().items():
        assert np.allclose(model.weights_[name], value.numpy(), rtol=1e-5, atol=1e-6), name
    assert [model._rate(epoch) for epoch in range(6)] == pytest.approx([0.1, 0.1, 0.02, 0.02, 0.004, 0.004])


def test_networks_learn():
    rows = np.arange(len(IMAGES))
    images = quick(epochs=30, batch_size=64, milestones=(20,), crop=1).fit(IMAGES[rows < 200], LABELS[rows < 200])
    assert images.score(IMAGES[rows >= 200], LABELS[rows >= 200]) > 0.8
    vectors = quick(layers, epochs=20, batch_size=32).fit(WINE, KINDS)
    assert vectors.score(WINE, KINDS) > 0.95
    assert np.allclose(vectors.predict_proba(WINE).sum(axis=1), 1)


@pytest.mark.parametrize("module", [small, stirred, network_in_network])
def test_the_batch_of_a_test_sample_changes_no_bit(module):
    model = quick(module, epochs=1).fit(IMAGES[:40], LABELS[:40])
    together = model.decision_function(IMAGES[40:70])
    alone = np.concatenate([model.decision_function(IMAGES[i : i + 1]) for i in range(40, 70)])
    assert np.array_equal(together, alone)
    assert np.array_equal(model.decision_function(IMAGES[69:39:-1]), together[::-1])


@pytest.mark.parametrize("module", [small, network_in_network])
def test_what_the_process_does_with_pytorch_changes_no_bit(module):
    """Threads, default type and device, precision, autocast, seeds, gradients off: put aside, and put back."""
    expected = quick(module, epochs=2).fit(IMAGES[:60], LABELS[:60])
    scores = expected.decision_function(IMAGES[:20])
    before = torch.get_num_threads(), torch.get_float32_matmul_precision()
    try:
        torch.set_num_threads(3)
        torch.set_float32_matmul_precision("medium")
        if hasattr(torch.backends.mkldnn, "conv"):
            torch.backends.mkldnn.conv.fp32_precision = "bf16"
        torch.backends.mkldnn.enabled = False
        torch.set_default_dtype(torch.float64)
        torch.use_deterministic_algorithms(False)  # whatever other tests of this process left
        torch.manual_seed(99)
        state = torch.get_rng_state()
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
            again = quick(module, epochs=2).fit(IMAGES[:60], LABELS[:60])
            repeated = again.decision_function(IMAGES[:20])
            assert torch.is_autocast_enabled("cpu")
        assert torch.equal(torch.get_rng_state(), state)
        assert torch.get_num_threads() == 3
        assert torch.get_float32_matmul_precision() == "medium"
        assert torch.get_default_dtype() == torch.float64
        assert not torch.backends.mkldnn.enabled
        assert not torch.are_deterministic_algorithms_enabled()
    finally:
        torch.set_num_threads(before[0])
        torch.set_float32_matmul_precision(before[1])
        torch.backends.mkldnn.enabled = True
        if hasattr(torch.backends.mkldnn, "conv"):
            torch.backends.mkldnn.conv.fp32_precision = "none"
        torch.set_default_dtype(torch.float32)
    assert same(expected, again)
    assert np.array_equal(scores, repeated)
    assert not same(expected, quick(module, epochs=2, random_state=6).fit(IMAGES[:60], LABELS[:60]))


def test_workers_change_no_bit():
    model = FiniteAggregationClassifier(quick(epochs=2), k=3, d=2, split=Split(dtype="uint8"), classes=range(10))
    expected = clone(model).fit(IMAGES[:120], LABELS[:120])
    with parallel_config("threading", n_jobs=2):
        other = model.fit(IMAGES[:120], LABELS[:120])
        votes = other.votes(IMAGES[120:140], rankings=True)
    assert all(same(one.model, two.model) for one, two in zip(expected.members_, other.members_, strict=True))
    assert [member.model.seed_ for member in other.members_] == list(range(6))
    assert np.array_equal(expected.votes(IMAGES[120:140], rankings=True).rankings, votes.rankings)


def test_subsets_of_every_kind():
    """Missing classes, one class, one sample, copies of one image, a batch of one left over."""
    learner = quick()
    samples = Split(dtype="uint8").samples(IMAGES)

    def member(rows):
        return fit_member(learner, 0, TrainingSet(samples, LABELS.astype(np.int64), np.array(rows, np.int64)))

    few = member(np.flatnonzero(np.isin(LABELS, (2, 7)))[:9])
    assert few.codes.tolist() == [2, 7]
    assert few.failure is None
    assert member([4]).model is None
    assert member([4]).fallback == LABELS[4]
    assert member([]).fallback is None
    assert member([4, 4, 4, 5]).failure is None
    assert member(range(17)).failure is None
    constant = np.hstack([WINE, np.ones((len(WINE), 1))])
    vectors = quick(layers, batch_size=8).fit(constant[::9][:17], KINDS[::9][:17])
    assert np.isfinite(vectors.decision_function(constant)).all()


def test_batches_hold_every_sample_once_and_two_at_least():
    for n in range(2, 40):
        parts = list(_batches(np.arange(n), 8))
        assert np.concatenate(parts).tolist() == list(range(n))
        assert all(2 <= len(part) <= 9 for part in parts)
    assert [len(part) for part in _batches(np.arange(3), 1)] == [1, 1, 1]


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 3)])
def test_images_are_cropped_and_mirrored(shape):
    image = np.arange(1, 1 + np.prod(shape)).reshape(shape)
    wide = [np.pad(turned, [(1, 1), (1, 1), *([(0, 0)] * (len(shape) - 2))]) for turned in (image, image[:, ::-1])]
    cuts = {picture[y : y + 6, x : x + 5].tobytes() for picture in wide for y in (0, 1, 2) for x in (0, 1, 2)}
    rng = np.random.default_rng(0)
    assert {part.tobytes() for part in _moved(np.stack([image] * 400), 1, True, rng)} == cuts
    assert np.array_equal(_moved(image[None].copy(), 0, False, rng)[0], image)


def test_a_fitted_network_is_kept_without_pickle(tmp_path):
    model = FiniteAggregationClassifier(
        nin().set_params(epochs=1), k=2, d=1, split=Split(dtype="uint8"), classes=range(10)
    ).fit(IMAGES[:60], LABELS[:60])
    model.save(tmp_path)
    back = FiniteAggregationClassifier.load(tmp_path, ["research.network_in_network.network_in_network"])
    assert all(same(one.model, two.model) for one, two in zip(model.members_, back.members_, strict=True))
    assert np.array_equal(back.votes(IMAGES[60:80]).matrix, model.votes(IMAGES[60:80]).matrix)
    own = FiniteAggregationClassifier(quick(), k=2, d=1, split=Split(dtype="uint8"), classes=range(10))
    own.fit(IMAGES[:60], LABELS[:60]).save(tmp_path / "own")
    with refused("file.damaged"):
        FiniteAggregationClassifier.load(tmp_path / "own")


def test_networks_are_told_apart_by_what_they_are_made_of():
    def made(width):
        return lambda shape, n_classes: small(shape, n_classes, width)

    assert describe(quick(made(4))) == describe(quick(made(4)))
    assert describe(quick(made(4))) != describe(quick(made(5)))
    assert describe(quick(partial(small, width=4))) == describe(quick(partial(small, width=4)))
    assert describe(quick(partial(small, width=4))) != describe(quick(partial(small, width=5)))
    assert "network_in_network" in describe(nin())
    assert describe(nin()) != describe(nin_mirror())


def test_what_is_not_the_samples_fault_is_not_hidden(monkeypatch):
    samples, codes = Split(dtype="uint8").samples(IMAGES), LABELS.astype(np.int64)

    def dear(shape, n_classes):
        torch.empty(1 << 60)

    with pytest.raises(MemoryError, match="could not be run"):
        fit_member(quick(dear), 0, TrainingSet(samples, codes, np.arange(20)))

    def broken(shape, n_classes):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(OSError, match="illegal"):
        fit_member(quick(broken), 0, TrainingSet(samples, codes, np.arange(20)))
    if not torch.cuda.is_available():
        with pytest.raises(OSError, match="finds no GPU for device 'cuda'"):
            fit_member(quick(device="cuda"), 0, TrainingSet(samples, codes, np.arange(20)))
    monkeypatch.setitem(sys.modules, "torch", None)
    with refused("missing-extra"):
        imported_torch()
    with refused("missing-extra"):
        fit_member(nin(), 0, TrainingSet(samples, codes, np.arange(20)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quick().fit(IMAGES[:9], np.zeros(9, int)), "at least 2 classes"),
        (lambda: quick(epochs=0).fit(IMAGES, LABELS), "'epochs' parameter of TorchClassifier must be .* Got 0"),
        (lambda: quick(batch_size=True).fit(IMAGES, LABELS), "'batch_size' parameter"),
        (lambda: quick(device="tpu").fit(IMAGES, LABELS), "'device' parameter must be 'cpu', 'cuda'"),
        (lambda: quick(layers, crop=1).fit(WINE, KINDS), "'crop' and 'mirror' move images"),
        (lambda: quick(network_in_network).fit(WINE, KINDS), "needs images.*Got vectors of 13 features"),
        (lambda: quick(learning_rate=1e30).fit(IMAGES, LABELS), "did not stay finite"),
        (lambda: quick(layers).fit(WINE, KINDS).predict(WINE[:3] * 1e300), "scores of sample 0 are not finite"),
        (lambda: quick().fit(IMAGES, LABELS).predict(IMAGES[:, :, :4]), r"samples of shape \(8, 8\). Got \(8, 4\)"),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("module", [nn.Linear(4, 4), lambda shape, n_classes: "a network"])
def test_a_module_must_be_built_afresh(module):
    with refused("type"):
        quick(module).fit(IMAGES, LABELS)
