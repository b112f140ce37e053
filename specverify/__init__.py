"""specverify decides whether a speculative-decoding sampler follows its target distribution."""

__version__ = "0.1.0"
