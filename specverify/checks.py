"""The catalogue of checks: stable ids, what each claims, what it finds, how it is measured.

Ids are never reused. A check of scope "lossless" holds for every lossless rule; one of scope "rule" is a law of one
rule and is asserted only for a sampler that declares it; one of scope "contract" is what the sampler promised by what
it asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from specverify.errors import ConfigError
from specverify.nearest import did_you_mean
from specverify.wording import brief

__all__ = ["CATALOGUE", "CERTAIN", "Check", "require_check"]

CERTAIN: Final = ("SV-STR-001", "SV-RPL-001", "SV-SUP-001", "SV-SUP-002")
"""Checks that fail by what a correct sampler never does: one event is proof, and spends no error budget."""


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        id: Stable id, such as SV-ACC-001.
        title: A few words.
        scope: "lossless", "rule" or "contract".
        claim: The law, in one sentence.
        finds: Which mistakes break it.
        measured: The statistic and its cells.
        source: Where the law comes from.
    """

    id: str
    title: str
    scope: str
    claim: str
    finds: str
    measured: str
    source: str = "arXiv 2211.17192, appendix A.1; arXiv 2302.01318, theorem 1"

    @property
    def explain(self) -> str:
        """Give the whole record as text."""
        asserted = {
            "lossless": "Asserted for every sampler.",
            "rule": "Asserted only when the sampler declares the rule.",
            "contract": "Asserted of what the sampler asked for, or reports of itself.",
        }[self.scope]
        return (
            f"{self.id}  {self.title}\n\nLaw:      {self.claim}\nFinds:    {self.finds}\n"
            f"Measured: {self.measured}\nScope:    {self.scope}. {asserted}\nSource:   {self.source}"
        )


_G = "Williams-corrected G test of the counts at the planned n, and a Dirichlet-mixture e-process at every look"

_CHECKS = (
    Check(
        "SV-STR-001",
        "output structure",
        "contract",
        "A call returns the accepted prefix of the draft and at most one more token, in the declared shape.",
        "wrong shapes and dtypes, tokens outside the vocabulary, bad padding, a prefix not drafted, exceptions, hangs",
        "every row of every call; one violation decides",
        "the verifier contract",
    ),
    Check(
        "SV-RPL-001",
        "replay",
        "contract",
        "The same inputs and seed give the same result, other seeds another; a row needs only its own per-row seed.",
        "ignored seeds, hidden state, races, one stream for all calls",
        "repeated calls on equal inputs; sixteen other seeds on a case with eight random bits per row",
        "the verifier contract",
    ),
    Check(
        "SV-SUP-001",
        "support",
        "lossless",
        "A token that the target cannot give is never emitted.",
        "accepting with <= at a coin of 0, filters lost on some rows, draws that fall off the end",
        "every emitted token; one violation decides",
    ),
    Check(
        "SV-SUP-002",
        "impossible under the token rule",
        "rule",
        "A draft with p >= q is never rejected, and a replacement always has p > q (token rule).",
        "redraws from the target, wrong residuals, inverted ratios",
        "every rejection outside the rounding tolerance; one violation decides",
    ),
    Check(
        "SV-TOK-001",
        "first token by p/q",
        "lossless",
        "The first token of the completed block follows p.",
        "nearly every wrong acceptance or residual: their error depends on p/q only",
        f"16 cells ordered by p/q (each token its own cell up to 16 tokens); {_G}",
    ),
    Check(
        "SV-TOK-002",
        "first token by p",
        "lossless",
        "The first token of the completed block follows p, from the most likely tokens to the rarest.",
        "wrong temperature, lost tails, coarse uniforms",
        f"16 cells of equal mass ordered by p and tails of 1e-2 to 1e-6; {_G}",
    ),
    Check(
        "SV-TOK-003",
        "first token by id",
        "lossless",
        "The first token of the completed block follows p, from the lowest token id to the highest.",
        "reused uniforms, inverse distribution functions that spill over, a wrong last token",
        f"16 cells of equal mass in id order, the last token alone; {_G}",
    ),
    Check(
        "SV-JNT-001",
        "joint law of the completed block",
        "lossless",
        "The block, completed with the unmodified target, has the target's joint law (strong losslessness).",
        "one coin per block, bonus from the draft, every fault of block rules: their first token is right",
        f"all blocks of a small vocabulary, products of cells by p/q of a large one; {_G}",
        "arXiv 2403.10444, theorem 2, for the notion of validity",
    ),
    Check(
        "SV-IND-001",
        "rows of one call are independent",
        "lossless",
        "Two rows of a batch share no randomness.",
        "one seed for all rows, coins keyed to the wrong index, mirrored rows",
        "at every distance between rows: exact binomial count of equal, and of mirrored, fair tokens",
        "independence of the acceptance randomness",
    ),
    Check(
        "SV-IND-002",
        "calls are independent",
        "lossless",
        "Two calls with different seeds share no randomness.",
        "a seed that is ignored or truncated, few distinct streams, counters that restart",
        "at every distance between calls: exact binomial count of equal, and of mirrored, fair tokens",
        "independence of the acceptance randomness",
    ),
    Check(
        "SV-IND-003",
        "counts within a call",
        "lossless",
        "How often a token comes in one call varies as independent rows do.",
        "stratified, antithetic or balanced draws within a batch",
        "number of heads per call against its binomial law; G test",
        "independence of the acceptance randomness",
    ),
    Check(
        "SV-IND-004",
        "nothing long repeats",
        "lossless",
        "No long run of tokens comes twice, whatever the rows and calls; single tokens repeat no more than by chance.",
        "streams shared in any pattern, few distinct streams, streams that overlap, permuted or mirrored rows",
        "runs worth 96 random bits at all places at once, along rows and along calls; binomial bound on repeats",
        "independence of the acceptance randomness; Hoeffding 1956 for the bound",
    ),
    Check(
        "SV-DRF-001",
        "drafted tokens",
        "rule",
        "A sampler that drafts by itself draws the tokens that it scores from the draft model.",
        "drafts by argmax or beam, a filter or temperature that the scores lack, drafts of another request",
        f"whole drafts of a small vocabulary, products of cells by p/q of a large one; {_G}",
        "arXiv 2211.17192, Algorithm 1: the draft is sampled from q",
    ),
    Check(
        "SV-ACC-001",
        "acceptance given the draft",
        "rule",
        "A drafted token is accepted as the declared rule says; token rule: with probability min(1, p/q).",
        "inverted ratio, leniency, accepting everything, one coin per block",
        f"cells of the draft by p/q, accepted or rejected, given that the position is reached; {_G}",
    ),
    Check(
        "SV-RES-001",
        "replacement given a rejection",
        "rule",
        "After a rejection the replacement follows the rule's residual; token rule: (p - q)+ normalised.",
        "redraws from the target or the draft, argmax, absolute differences, floors",
        f"cells of the replacement by p/q, given a rejection at the position; {_G}",
    ),
    Check(
        "SV-RES-002",
        "replacement and rejected draft together",
        "rule",
        "The replacement and the rejected draft have the rule's joint law; under the token rule they are independent.",
        "the accept coin reused for the residual, residuals without the drafted token",
        f"pairs of cells (draft, replacement), given a rejection at the position; {_G}",
    ),
    Check(
        "SV-POS-001",
        "token at a later position that is reached",
        "rule",
        "Given that a position is reached its token follows the rule's law; token rule: p at that position.",
        "coins shared by positions, rows shifted by one, later positions taken from another row",
        f"cells of the token at the position, given that it is reached; {_G}",
    ),
    Check(
        "SV-BON-001",
        "bonus given full acceptance",
        "rule",
        "When every draft is accepted the bonus token follows the rule's law; token rule: p after the whole draft.",
        "bonus from the draft, from the previous row, by argmax, or missing",
        f"cells of the bonus, given that all drafts were accepted; {_G}",
    ),
    Check(
        "SV-PRP-001",
        "proposals follow the reported q",
        "contract",
        "A loop that reports its rounds drew each drafted token from the law q that it reports for it.",
        "a q of other rows, columns or processors than the draft's, a permuted vocabulary, drafts by argmax",
        f"the place of each draft in the distribution function of its q, spread by a coin, in 16 equal cells; {_G}",
        "arXiv 2211.17192, Algorithm 1: the draft is sampled from q",
    ),
    Check(
        "SV-RND-001",
        "acceptance in reported rounds",
        "rule",
        "In a loop's reported round a draft is accepted as the declared rule says, for the q reported and the exact p.",
        "scores of another row or context, filters on one side, leniency, caches that keep rejected drafts",
        f"accepted or refused, spread by a coin over the chance due, in 16 equal cells; {_G}",
    ),
    Check(
        "SV-RND-002",
        "replacement and bonus in reported rounds",
        "rule",
        "The token after the accepted drafts of a reported round follows the declared rule's residual, or the target.",
        "bonus by argmax or from another row, redraws, filters lost on the bonus row",
        f"the token's place in the distribution function due, spread by a coin, in 16 equal cells; {_G}",
    ),
    Check(
        "SV-LEN-001",
        "accepted length",
        "rule",
        "The number of accepted drafts has the law of the declared rule.",
        "a lossless sampler that accepts too little, one coin per block, a loop that stops early",
        f"the accepted lengths 0 to num_draft_tokens; {_G}",
    ),
    Check(
        "SV-RUL-001",
        "joint law of draft, accepted length and next token",
        "rule",
        "The whole outcome of a verification has the law of the declared rule.",
        "any departure from the rule that single margins hide; it also tells rules apart",
        f"every outcome of a small vocabulary; {_G}",
    ),
    Check(
        "SV-ALL-001",
        "combined evidence",
        "lossless",
        "The laws of every lossless rule, together: their mean evidence stays below 2/alpha.",
        "small departures that no single check can prove",
        "sum of the e-values of the lossless probes over the number of all probes, at every look",
        "Vovk and Wang, merging e-values; Ville's inequality",
    ),
    Check(
        "SV-ALL-002",
        "combined evidence, rule included",
        "rule",
        "All laws of the declared rule, together: their mean evidence stays below 2/alpha.",
        "small departures from the rule that no single check can prove",
        "mean of the e-values of all planned probes, at every look",
        "Vovk and Wang, merging e-values; Ville's inequality",
    ),
)

CATALOGUE = MappingProxyType({check.id: check for check in _CHECKS})
"""All checks by id, in the order of reports."""


def require_check(check: object) -> str:
    """Give the id of a check back, or refuse it.

    Args:
        check: What is given as an id.

    Returns:
        The id.

    Raises:
        ConfigError: There is no such check; the nearest that there is gets named.

    Example:
        >>> require_check("SV-RES-001")
        'SV-RES-001'
    """
    if not isinstance(check, str) or check not in CATALOGUE:
        close = did_you_mean(str(check), CATALOGUE)
        raise ConfigError(f"expected the id of a check, got {brief(check)}{close}; `specverify list checks` shows all")
    return check
