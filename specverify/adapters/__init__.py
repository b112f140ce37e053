"""One small file per engine: how its sampler is called as a verifier. None is imported before it is asked for."""
