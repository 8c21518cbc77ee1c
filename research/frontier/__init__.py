"""The largest attack sizes that each data set withstands: scripts, frozen configurations and what they measured."""
