"""What the library logs, as a list of lines."""

import logging


class heard(logging.Handler):  # noqa: N801
    """Within, every line that the logger "poisonproof" is told, or a function that is told each of them."""

    def __init__(self, tell=None):
        super().__init__()
        self.lines = []
        self.tell = tell or self.lines.append

    def __enter__(self):
        self.logger = logging.getLogger("poisonproof")
        self.before = self.logger.level
        self.logger.setLevel(logging.INFO)
        self.logger.addHandler(self)
        return self.lines

    def __exit__(self, *error):
        self.logger.removeHandler(self)
        self.logger.setLevel(self.before)

    def emit(self, record):
        self.tell(record.getMessage())
