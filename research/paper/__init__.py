"""The paper's tables and figures from our own runs, the published numbers beside them."""
