"""What papers and frontiers were measured with: run from the repository's root, not in the wheel.

Code here may import internals of poisonproof; poisonproof never imports it.
"""
