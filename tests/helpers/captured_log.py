"""What the library logs, as a list of lines."""

import logging
from contextlib import contextmanager


@contextmanager
def captured_log():
    """Every line that the logger "poisonproof" gets meanwhile, in fixtures of any scope."""
    logger, lines = logging.getLogger("poisonproof"), []
    handler, before = logging.Handler(), logger.level
    handler.emit = lambda record: lines.append(record.getMessage())
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
