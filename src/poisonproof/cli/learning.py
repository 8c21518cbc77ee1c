"""The learner that the command line asks for, or the one for this kind of data; with an encoder in front, if any."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from poisonproof import registry
from poisonproof.cli import encoding, output
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data.dataset import Dataset


def with_learner(
    samples: Dataset, name: str | None, encoder: str | None = None, *, quiet: bool = False
) -> tuple[Dataset, Any]:
    """The learner that was asked for, or the one for this kind of data; which is then said, and is a premise.

    With an encoder in front of it, it learns from embeddings.
    """
    from poisonproof.learners.inspection import describe
    from poisonproof.learners.presets import (
        HEAD,
        ONLY_TEXTS,
        TEXT_LEARNERS,
        THERE_ARE_TEXTS,
        learner_for,
        load_learner,
        preset,
    )
    from poisonproof.premises import Premise

    if encoder is not None:
        return _behind_encoder(samples, name, encoder, quiet=quiet)
    if name == HEAD:
        raise PoisonproofError(f"The learner '{HEAD}' learns from embeddings; say which with --encoder.")
    picked, why, texts = learner_for(samples.schema)
    if name is not None and ":" in name:
        estimator = load_learner(name)
        premise = Premise("learner", {"learner": describe(estimator), "given_as": name}, declared=True)
        return replace(samples, premises=(*samples.premises, premise)), estimator
    has_texts = why == THERE_ARE_TEXTS
    if name in TEXT_LEARNERS and name != "auto" and not has_texts:
        raise PoisonproofError(f"The learner '{name}' takes texts, and this data has none; use another --learner.")
    if name in ONLY_TEXTS and texts:
        raise PoisonproofError(f"The learner '{name}' takes texts alone, and there are other columns; use 'text'.")
    if name is not None and name not in TEXT_LEARNERS and has_texts and not texts:
        raise PoisonproofError(f"The learner '{name}' cannot take texts; leave --learner {name} out.")
    estimator = preset(name or picked, texts)
    if name is None and samples.schema is not None:
        if not quiet:
            output.note(f"learner: {picked}, because {why}; --learner chooses another")
        guessed = any(premise.code == "schema" and not premise.declared for premise in samples.premises)
        premise = Premise(
            "learner", {"learner": describe(estimator), "because": why}, declared=False if guessed else None
        )
        return replace(samples, premises=(*samples.premises, premise)), estimator
    if name is None:
        samples = replace(samples, premises=(*samples.premises, Premise("learner", describe(estimator), declared=None)))
    return samples, estimator


def _behind_encoder(samples: Dataset, name: str | None, encoder: str, *, quiet: bool) -> tuple[Dataset, Any]:
    from poisonproof.learners.inspection import describe
    from poisonproof.learners.presets import HEAD, TEXT_LEARNERS, load_learner, preset
    from poisonproof.premises import Premise, declared_if

    if name in TEXT_LEARNERS and name != "auto":
        raise PoisonproofError(
            f"The learner '{name}' takes texts, and behind --encoder {encoder} stand embeddings; leave one of them out."
        )
    chosen = encoding.encoder_of(encoder)
    head = preset(HEAD) if name is None else load_learner(name) if ":" in name else preset(name)
    estimator = registry.in_front(chosen, head)
    premises = [*samples.premises, replace(chosen.premises[0], declared=declared_if(not chosen.is_default))]
    if name is None:
        premises.append(Premise("learner", describe(estimator), declared=None))
    elif ":" in name:
        premises.append(Premise("learner", {"learner": describe(estimator), "given_as": name}, declared=True))
    if name is None and not quiet:
        output.note(f"encoder: {encoder}, {chosen.record.trained_on}; learner: {HEAD}; both are premises")
    return replace(samples, premises=tuple(premises)), estimator
