"""Feature maps: fixed functions of one sample, quantised to integers. Nothing here is fitted."""
