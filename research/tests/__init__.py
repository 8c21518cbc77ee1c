"""Tests of research, and the slow reference implementations that its campaigns share with them."""
