"""Where training samples vote: ballots and nearest neighbors."""
