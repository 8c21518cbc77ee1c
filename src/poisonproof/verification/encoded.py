"""The encoder in front of base classifiers: its weights are those on record, its embeddings those that were kept."""

from __future__ import annotations

import numpy as np

from poisonproof.errors import PoisonproofError
from poisonproof.learners.feature_maps import WIDTH
from poisonproof.learners.inspection import public_map_of
from poisonproof.system.archives import map_npy
from poisonproof.training.pooled import FEATURES
from poisonproof.verification import claims
from poisonproof.verification.checks import sample_rows
from poisonproof.verification.files import same, short
from poisonproof.verification.members import SavedEnsemble, other_environment
from poisonproof.verification.verdict import CheckFailed, CheckSkipped

ROWS = 20


def encoder(ensemble: SavedEnsemble, seed: int) -> str:
    """The encoder at hand is the one that the premises name, and its weights have the digest that they state.

    Of embeddings that were kept with base classifiers, some drawn at random are computed again, to the bit.
    """
    at_hand = None if public_map_of(ensemble.learner) is None else public_map_of(ensemble.prepared.data.learner)
    stated = claims.values(ensemble.files.facts, "encoder", WIDTH)
    if at_hand is None:
        raise CheckFailed("the premises name an encoder, but the learner has none.")
    here = [premise.value for premise in at_hand.premises]
    if not same(here, stated):
        raise CheckFailed(f"the encoder at hand is {short(here)}, but the premises name {short(stated)}.")
    try:
        at_hand.runtime()
    except ImportError as error:
        raise CheckSkipped(str(error)) from None
    except PoisonproofError as error:
        raise CheckFailed(str(error)) from None
    digests = " and ".join(f"{digest[:16]}…" for digest in at_hand.weights.split(" and "))
    words = f"the weights have the SHA-256 on record, {digests}"
    kept = ensemble.files.folder / "models" / FEATURES if ensemble.files.folder else None
    if kept is None or not kept.exists():
        return f"{words}; no embeddings were kept."
    rows, samples = map_npy(kept), ensemble.prepared.source.samples
    if len(rows) != len(samples):
        raise CheckFailed(f"{kept.name} holds {len(rows)} embeddings of {len(samples)} training samples.")
    chosen = np.sort(sample_rows(len(rows), min(ROWS, len(rows)), seed, 4))
    again = at_hand(samples.take(chosen))[:, 0]
    differing = int((again != rows[chosen]).any(axis=1).sum())
    if differing:
        raise CheckFailed(
            f"{differing} of {len(chosen)} training samples, encoded again, have other embeddings than "
            f"{kept.name}{other_environment(ensemble.files)}."
        )
    return f"{words}; {len(chosen)} of {len(rows)} embeddings, drawn at random and computed again, are as kept."
