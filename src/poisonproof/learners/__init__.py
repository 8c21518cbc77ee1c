"""Base classifiers: the default for tables, and the adapter that trains any scikit-learn classifier."""
