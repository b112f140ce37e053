"""What needs a CUDA device: samplers whose tensors live there are checked as any other.

``pytest --pyargs specverify.gpu_tests`` runs it. Every test runs on the CPU too, briefly, so that its code is known to
work; without a CUDA device that is all, and the rest is skipped.
"""
