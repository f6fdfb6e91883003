"""Random valid integer kernels and an oracle that runs them; neither imports `tack`."""
