"""Ballots whose map is learned from untrusted samples, block by block: BlockBallotClassifier and its certificate."""
