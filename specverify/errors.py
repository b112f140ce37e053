"""What can go wrong when the kit is used, told apart by who has to act.

    SpecverifyError
    +-- ContractError       the sampler's declaration or one of its calls breaks the contract
    +-- SamplerLoadError    the name of a sampler leads to nothing that can be run
    +-- ConfigError         the kit itself was asked for something impossible

Every message is one line: what was expected, what was got, what to do. A sampler that is merely *wrong* raises none
of these: that is a verdict, not an error.
"""

__all__ = ["ConfigError", "ContractError", "SamplerLoadError", "SpecverifyError"]


class SpecverifyError(Exception):
    """The base of every error that specverify raises on purpose.

    >>> issubclass(ConfigError, SpecverifyError)
    True
    """


class ContractError(SpecverifyError):
    """A sampler's declaration, or what one of its calls returned, breaks the contract."""


class SamplerLoadError(SpecverifyError):
    """A sampler named on the command line or in a registry cannot be found or imported."""


class ConfigError(SpecverifyError):
    """An option or argument given to the kit is outside what it accepts."""
