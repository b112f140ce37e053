"""The one engine behind every door: plan, run, report."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from specverify.cases import Case
from specverify.errors import ConfigError
from specverify.plan import plan
from specverify.reports import Report
from specverify.results import report
from specverify.suite import Progress, Run
from specverify.wording import brief

__all__ = ["check"]


def check(
    sampler: Callable[..., Any],
    *,
    cases: Sequence[Case] | None = None,
    profile: str = "quick",
    seed: int = 0,
    alpha: float = 1e-6,
    target_tv: float | None = None,
    only: Sequence[str] = (),
    require: str | None = None,
    samples: int | None = None,
    known_failures: Mapping[str, str] | None = None,
    time_limit: float | None = None,
    timeout: float | None = None,
    target: str | None = None,
    stop_early: bool = True,
    workers: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Decide whether a sampler follows its target, and the rule that it declares.

    Args:
        sampler: A verifier (module ``contract``) or a plain function with its parameter names.
        cases: What is run in place of the built-in cases, those of the independence checks included.
        profile: Sample counts: "quick" (seconds), "ci" (about a minute) or "release" (minutes).
        seed: Root of every random number of the run, an integer >= 0; the same seed gives the same counts.
        alpha: Most that the probability of calling a correct sampler nonconformant may be, for the whole run.
        target_tv: Total variation that must be detectable with probability 0.9 for the verdict "conformant"; by
            default .10, .05 or .02 by profile.
        only: Ids of the only checks to run; empty means all.
        require: "lossless" or "rule", what the verdict depends on; by default "rule" where one is declared.
        samples: Rows of every case in place of those of the profile; fewer where the tolerance class resolves no more.
        known_failures: Reason by check id: these are expected to fail, and fail the run when they do not.
        time_limit: Seconds after which no further case is begun; what is open then stays inconclusive.
        timeout: Seconds that one call may take: the calls are then made in a process of its own, and one that hangs or
            ends it fails the structure check and costs its case alone; with one worker, the memory of that process is
            watched.
        target: What names the sampler on the command line, for the line that reproduces a failure.
        stop_early: End as soon as a fault is proved. Without it every case is run to its planned rows, and each check
            is decided alone by its share of alpha, so that what is decided of one says nothing of another.
        workers: Processes that share the work, one thread each; the counts are the same for any number. In a GPU's or a
            model's case each of them holds the sampler anew.
        progress: Called with a Progress after every case of every look, and once before a fault is named.

    Returns:
        The report, with ``.verdict``, ``.lossless``, ``.rule``, ``.checks``, ``.diagnosis`` and ``.to_json()``.

    Raises:
        SpecverifyError: The sampler's declaration or an option is wrong.

    Example:
        >>> from specverify.registry import load
        >>> check(load("naive-redraw"), samples=2000).verdict
        'nonconformant'
    """
    if progress is not None and not callable(progress):
        raise ConfigError(f"expected progress to be a function of a Progress, got {brief(progress)}")
    with np.errstate(all="warn", under="ignore"), warnings.catch_warnings():  # what the caller has set is the caller's
        warnings.simplefilter("default")  # a warning is no finding, also where the caller has made errors of them
        run = Run(
            plan(
                sampler,
                cases=cases,
                profile=profile,
                seed=seed,
                alpha=alpha,
                target_tv=target_tv,
                only=only,
                require=require,
                samples=samples,
                known_failures=known_failures,
                time_limit=time_limit,
                timeout=timeout,
                target=target,
                stop_early=stop_early,
                workers=workers,
            )
        )
        run.execute(progress)
        return report(run, progress)
