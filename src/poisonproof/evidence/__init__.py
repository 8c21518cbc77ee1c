"""What an auditor, a regulator or a build server can take away from a run, in the formats that they use."""
