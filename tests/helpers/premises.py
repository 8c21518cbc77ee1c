"""What files state as premises, in the words that people read."""

from poisonproof.premises import from_records


def in_words(record):
    return [premise.words for premise in from_records(record["premises"])]
