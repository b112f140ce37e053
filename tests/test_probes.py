"""Each probe's null probabilities are those of theory, and its cells partition what a trace can show.

The law of a probe is found by enumeration; here it is compared with the closed forms of the token rule, computed by
hand with fractions, and with direct counts on traces.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from specverify.arrays import IntArray
from specverify.cases import Case, Prefix
from specverify.checks import CATALOGUE
from specverify.menu import menu
from specverify.probes import IMPOSSIBLE, CaseProbes, Probe
from specverify.reference import RULES, outcome_law
from specverify.sampling import CaseSampler
from specverify.trace import Trace
from specverify.views import decode_outcomes, outcome_question

BY_NAME = {case.name: case for case in menu()}
SMALL = [case for case in menu() if case.vocab_size <= 8]
UNIFORM = [case for case in SMALL if case.exact and case.num_draft_tokens and not case.ragged]
TAU = 1e-12


def named(case: Case) -> str:
    """Name a case in the ids of tests."""
    return case.name


def probes(case: Case, rule: str | None = "token") -> dict[str, Probe]:
    """Give the probes of a case by check and position."""
    return {probe.key.removesuffix(f" on {case.name}"): probe for probe in CaseProbes(case, TAU, rule).probes}


def answered(probe: Probe) -> dict[int, float]:
    """Give the null probability of every possible answer, before the share lent to the impossible."""
    cells = len(probe.probs) - 1
    return {a: float(probe.probs[c]) / (1 - IMPOSSIBLE) for a, c in enumerate(probe.lookup.tolist()) if c < cells}


# --- every probe -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [None, *RULES])
@pytest.mark.parametrize("case", menu(), ids=named)
def test_null_probabilities_are_a_distribution_over_labelled_cells(case: Case, rule: str | None) -> None:
    """They sum to 1, none is zero, each cell has its label, and the last is lent to what cannot happen."""
    made = CaseProbes(case, TAU, rule).probes
    assert len({probe.key for probe in made}) == len(made)
    for probe in made:
        assert probe.probs.sum() == pytest.approx(1, abs=1e-12)
        assert (probe.probs > 0).all()
        assert len(probe.labels) == len(probe.probs)
        assert len(set(probe.labels)) == len(probe.labels)
        assert probe.labels[-1] == "what cannot happen"
        assert probe.probs[-1] == IMPOSSIBLE
        assert probe.check in CATALOGUE
        assert probe.lookup[-1] == len(probe.probs) - 1
        assert set(probe.lookup.tolist()) == set(range(len(probe.probs)))


def test_checks_of_a_rule_are_made_only_where_it_is_declared() -> None:
    """Without a declared rule only lossless checks are made; with one, those of scope rule too."""
    for case in menu():
        scopes = {CATALOGUE[probe.check].scope for probe in CaseProbes(case, TAU, None).probes}
        assert scopes <= {"lossless"}
    assert {CATALOGUE[probe.check].scope for probe in probes(BY_NAME["W402"]).values()} == {"lossless", "rule"}


def test_large_vocabularies_are_seen_by_ratio_by_mass_and_by_id() -> None:
    """Above 16 tokens the first token has three partitions, below each token its cell; blocks are lumped."""
    large = {probe.check for probe in CaseProbes(BY_NAME["softmax-1024"], TAU, None).probes}
    assert large == {"SV-TOK-001", "SV-TOK-002", "SV-TOK-003", "SV-JNT-001"}
    small = {probe.check for probe in CaseProbes(BY_NAME["T3"], TAU, None).probes}
    assert small == {"SV-TOK-001", "SV-JNT-001"}
    assert {probe.check for probe in CaseProbes(BY_NAME["no-draft"], TAU, None).probes} == {"SV-TOK-001"}


# --- closed forms ----------------------------------------------------------------------------------------------------


class Closed:
    """The laws of the token rule on one exact case, from their formulas, with fractions."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.size, self.full = case.vocab_size, case.num_draft_tokens

    def p(self, prefix: Prefix) -> list[Fraction]:
        """Give the target row."""
        return [Fraction(x) for x in self.case.target_row(prefix)]

    def q(self, prefix: Prefix) -> list[Fraction]:
        """Give the draft row."""
        return [Fraction(x) for x in self.case.draft_row(prefix)]

    def reach(self, length: int) -> dict[Prefix, Fraction]:
        """Give the probability that each prefix is drafted and accepted: the product of min(p, q)."""
        law: dict[Prefix, Fraction] = {(): Fraction(1)}
        for _ in range(length):
            law = {
                (*prefix, x): weight * min(self.p(prefix)[x], self.q(prefix)[x])
                for prefix, weight in law.items()
                for x in range(self.size)
            }
        return law

    def tied(self, prefix: Prefix, x: int) -> bool:
        """Say whether p = q > 0 there."""
        return self.p(prefix)[x] == self.q(prefix)[x] > 0

    def mixed(self, length: int, cell: Callable[[Prefix], Mapping[int, Fraction]]) -> dict[int, float]:
        """Average answers over the reached prefixes, and make them conditional on there being one."""
        sums: defaultdict[int, Fraction] = defaultdict(Fraction)
        for prefix, weight in self.reach(length).items():
            for answer, probability in cell(prefix).items():
                sums[answer] += weight * probability
        total = sum(sums.values())
        return {answer: float(weight / total) for answer, weight in sums.items() if weight}

    def acceptance(self, prefix: Prefix) -> dict[int, Fraction]:
        """P(x, accepted) = min(p, q); P(x, rejected) = q - min(p, q)."""
        p, q = self.p(prefix), self.q(prefix)
        accepted = {2 * x + 1: min(p[x], q[x]) for x in range(self.size)}
        return accepted | {2 * x: q[x] - min(p[x], q[x]) for x in range(self.size)}

    def replacement(self, prefix: Prefix) -> dict[int, Fraction]:
        """P(rejected, y) = (p - q)+, for the rejected mass is the residual mass."""
        p, q = self.p(prefix), self.q(prefix)
        return {y + 1: max(p[y] - q[y], Fraction(0)) for y in range(self.size)}

    def pair(self, prefix: Prefix) -> dict[int, Fraction]:
        """P(x rejected, y) = (q - p)+(x) r(y): draft and replacement are independent given a rejection."""
        p, q = self.p(prefix), self.q(prefix)
        rest = [max(a - b, Fraction(0)) for a, b in zip(p, q, strict=True)]
        scale = sum(rest) or Fraction(1)
        return {
            x * (self.size + 1) + y + 1: max(q[x] - p[x], Fraction(0)) * rest[y] / scale
            for x in range(self.size)
            for y in range(self.size)
        }

    def token(self, prefix: Prefix) -> dict[int, Fraction]:
        """P(y) = p(y) at a position that is reached."""
        return {y + 1: x for y, x in enumerate(self.p(prefix))}

    def lengths(self) -> dict[int, float]:
        """P(accepted >= i) is the sum of the products of min(p, q)."""
        tail = [sum(self.reach(i).values(), Fraction(0)) for i in range(self.full + 1)] + [Fraction(0)]
        law = {i: tail[i] - tail[i + 1] for i in range(self.full + 1)}
        return {self.full * (self.full + 1) + i: float(weight) for i, weight in law.items() if weight}

    def blocks(self) -> dict[int, float]:
        """P(block) is the product of p."""
        law = {}
        for number, block in enumerate(product(range(self.size), repeat=self.full + 1)):
            weight = Fraction(1)
            for i, x in enumerate(block):
                weight *= self.p(block[:i])[x]
            if weight:
                law[number] = float(weight)
        return law


def assert_law(probe: Probe | None, due: dict[int, float]) -> None:
    """Assert that a probe has these answers with these probabilities, or is left out for having fewer than two."""
    if len(due) < 2:
        assert probe is None
    else:
        assert probe is not None
        assert answered(probe) == pytest.approx(due, abs=1e-12, rel=1e-12)


@pytest.mark.parametrize("case", [case for case in UNIFORM if case.name != "tiny-ratio"], ids=named)
def test_probes_of_the_token_rule_follow_the_closed_forms(case: Case) -> None:
    """Acceptance, replacement, pairs, later tokens, bonus, length and block have the laws of theory, to 1e-12."""
    closed, made = Closed(case), probes(case)
    for i in range(case.num_draft_tokens):
        assert_law(made.get(f"SV-ACC-001@{i}"), closed.mixed(i, closed.acceptance))
        assert_law(made.get(f"SV-RES-001@{i}"), closed.mixed(i, closed.replacement))
        assert_law(made.get(f"SV-RES-002@{i}"), closed.mixed(i, closed.pair))
        if i:
            assert_law(made.get(f"SV-POS-001@{i}"), closed.mixed(i, closed.token))
    assert "SV-POS-001@0" not in made, "that is the first token"
    assert_law(made.get("SV-BON-001"), closed.mixed(case.num_draft_tokens, closed.token))
    assert_law(made.get("SV-LEN-001"), closed.lengths())
    assert_law(made.get("SV-TOK-001"), {y - 1: float(x) for y, x in closed.token(()).items() if x})
    if len(closed.blocks()) <= 512:
        assert_law(made.get("SV-JNT-001"), closed.blocks())


def test_tiny_ratios_keep_their_digits() -> None:
    """One draft in a hundred million: the acceptance law is right to twelve digits, not to twelve decimals."""
    due = Closed(BY_NAME["tiny-ratio"]).mixed(0, Closed(BY_NAME["tiny-ratio"]).acceptance)
    assert answered(probes(BY_NAME["tiny-ratio"])["SV-ACC-001@0"]) == pytest.approx(due, rel=1e-12)
    assert min(due.values()) == pytest.approx(1e-8)


def test_merged_cells_add_up() -> None:
    """Where answers outnumber the cells they share them, and the sums are those of the answers."""
    rows = {
        p: [Fraction(1 + (i + len(p)) % 3, 15) for i in range(8)] for n in range(4) for p in product(range(8), repeat=n)
    }
    rows = {p: [x / sum(row) for x in row] for p, row in rows.items()}
    case = Case.from_table("wide", rows, rows, num_draft_tokens=3)
    probe = probes(case, None)["SV-JNT-001"]
    assert len(probe.probs) == 513
    sums = np.zeros(512)
    for number, weight in Closed(case).blocks().items():
        sums[number % 512] += weight
    assert probe.probs[:-1] / (1 - IMPOSSIBLE) == pytest.approx(sums, abs=1e-12)


def test_a_ragged_case_mixes_its_lengths() -> None:
    """Draft lengths 0, 1 and 2 come equally often; given the length, all is as for drafts of that length."""
    case, made = BY_NAME["W637-ragged"], probes(BY_NAME["W637-ragged"])
    closed = Closed(case)
    tail = [sum(closed.reach(i).values(), Fraction(0)) for i in range(3)]
    due = {0: tail[0], 3: tail[0] - tail[1], 4: tail[1], 6: tail[0] - tail[1], 7: tail[1] - tail[2], 8: tail[2]}
    assert_law(made["SV-LEN-001"], {answer: float(weight / 3) for answer, weight in due.items()})
    assert_law(made["SV-ACC-001@0"], closed.mixed(0, closed.acceptance))
    assert_law(made["SV-ACC-001@1"], closed.mixed(1, closed.acceptance))
    assert_law(made["SV-POS-001@1"], closed.mixed(1, closed.token))
    for i in range(2):
        assert_law(made[f"SV-RES-001@{i}"], closed.mixed(i, closed.replacement))
        assert_law(made[f"SV-RES-002@{i}"], closed.mixed(i, closed.pair))
    assert_law(made["SV-BON-001"], closed.mixed(2, closed.token))
    assert_law(made["SV-JNT-001"], closed.blocks())
    laws = CaseProbes(case, TAU, "token")
    whole, lens = laws.outcome_probe(RULES["token"]), laws.rule_lens
    assert whole is not None
    assert lens is not None
    drafts, accepted, following = decode_outcomes(lens, np.array(list(answered(whole))))
    lengths = (drafts >= 0).sum(axis=1)
    weights = np.array(list(answered(whole).values()))
    for length in range(3):
        law = outcome_law(RULES["token"], case.target_row, case.draft_row, length)
        mine = lengths == length
        rows = zip(drafts[mine, :length].tolist(), accepted[mine].tolist(), following[mine].tolist(), strict=True)
        got = {(tuple(x), a, y): 3 * w for (x, a, y), w in zip(rows, weights[mine].tolist(), strict=True)}
        assert got == pytest.approx({outcome[:3]: float(w) for outcome, w in law.items()}, abs=1e-12)


# --- counting --------------------------------------------------------------------------------------------------------


def all_outcomes(case: Case, rule: str) -> tuple[Trace, list[float]]:
    """Write every outcome of a rule, completed in every way, as a row of a trace with its probability."""
    width = case.num_draft_tokens + 1
    rows, weights = [], []
    for outcome, weight in outcome_law(RULES[rule], case.target_row, case.draft_row, width - 1).items():
        for rest in product(range(case.vocab_size), repeat=width - len(outcome.emitted)):
            chance, block = float(weight), (*outcome.emitted, *rest)
            for i in range(len(outcome.emitted), width):
                chance *= float(case.target_row(block[:i])[block[i]])
            rows.append((*outcome.draft_tokens, outcome.num_accepted, outcome.next_token, *block))
            weights.append(chance)
    table = np.array(rows, dtype=np.int64)
    lengths = np.full(len(table), width - 1)
    parts = np.split(table, [width - 1, width, width + 1], axis=1)
    return Trace(parts[0], lengths, parts[1][:, 0], parts[2][:, 0], parts[3]), weights


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["AB", "C2", "T3", "W402", "W402-reversed", "zeros", "last-empty", "equal"])
def test_counting_every_outcome_gives_back_the_null(name: str, rule: str) -> None:
    """Each outcome of the exact law is counted in the cell that has its probability, under every rule."""
    case = BY_NAME[name]
    laws = CaseProbes(case, TAU, rule)
    trace, weights = all_outcomes(case, rule)
    assert sum(weights) == pytest.approx(1, abs=1e-12)
    for probe in laws.probes:
        sums = np.zeros(len(probe.probs))
        for row, weight in enumerate(weights):
            columns = (column for column in vars(trace).values() if column is not None)
            one = Trace(*(column[row : row + 1] for column in columns))
            assert laws.block_lens is not None
            views = laws.views(one, np.random.default_rng(0)) | {"block": laws.block_lens.view(one)}
            sums += weight * probe.count(views)
        assert sums[-1] < 1e-15
        assert sums[:-1] / sums.sum() == pytest.approx(probe.probs[:-1] / (1 - IMPOSSIBLE), abs=1e-12)


def drawn(case: Case, rows: int, seed: int) -> Trace:
    """Make a trace that follows no rule in particular: any accepted length, any next token, now and then none."""
    rng = np.random.default_rng(seed)
    sampler = CaseSampler(case)
    drafts, lengths = sampler.draft(rows, rng)
    accepted = rng.integers(0, lengths + 1)
    following = rng.integers(-1, case.vocab_size, rows)
    return sampler.complete(drafts, lengths, accepted, following, rng)


@pytest.mark.parametrize("rule", ["token", "match"])
@pytest.mark.parametrize("case", [case for case in SMALL if case.vocab_size > 1], ids=named)
def test_recounting_outcomes_equals_counting_the_trace(case: Case, rule: str) -> None:
    """What is kept of a trace are its outcome counts; any rule's outcome probe can be counted from them."""
    laws = CaseProbes(case, TAU, rule)
    probe = laws.outcome_probe(RULES[rule])
    assert probe is not None
    views = laws.views(drawn(case, 2000, 7), np.random.default_rng(8))
    direct = probe.count(views)
    assert probe.recount(laws.count_outcomes(views)).tolist() == direct.tolist()
    assert direct.sum() > 0


@pytest.mark.parametrize("case", SMALL, ids=named)
def test_outcome_probabilities_follow_the_law(case: Case) -> None:
    """The probabilities of all outcomes, as the diagnosis uses them, are the enumerated weights of untied outcomes."""
    laws = CaseProbes(case, TAU, None)
    law = laws.law(RULES["token"])
    assert law is not None
    probs = laws.outcome_probs(law)
    assert len(probs) == laws.outcome_space
    assert probs.sum() == pytest.approx(1, abs=1e-12), "the token rule never rejects at a tie"


@pytest.mark.parametrize("case", SMALL, ids=named)
def test_decoding_inverts_the_outcome_question(case: Case) -> None:
    """Draft, accepted length and next token come back from the number, padding and missing tokens included."""
    laws = CaseProbes(case, TAU, None)
    lens = laws.rule_lens
    assert lens is not None
    trace = drawn(case, 500, 11)
    view = lens.view(trace)
    answers = outcome_question(lens).ask(view)
    kept = answers >= 0
    assert (~kept).tolist() == (view.tied_draft | view.tied_next).tolist()
    drafts, accepted, following = decode_outcomes(lens, answers[kept])
    assert drafts.tolist() == trace.draft_tokens[kept].tolist()
    assert accepted.tolist() == trace.num_accepted[kept].tolist()
    assert following.tolist() == trace.next_token[kept].tolist()
    assert answers.max(initial=0) < laws.outcome_space


def test_labels_say_what_an_answer_means() -> None:
    """Each probe's labels name the tokens that its cells hold."""
    made = probes(BY_NAME["AB"])
    assert made["SV-ACC-001@0"].labels[:-1] == ("token 0 rejected", "token 0 accepted", "token 1 accepted")
    assert made["SV-LEN-001"].labels[:-1] == ("0 of 1 accepted", "1 of 1 accepted")
    assert made["SV-BON-001"].labels[:-1] == ("bonus token 0", "bonus token 1")
    assert made["SV-RUL-001"].labels[0] == "draft 0, accepted 0, next 1"
    assert made["SV-JNT-001"].labels[:-1] == tuple(f"token {a}, token {b}" for a in (0, 1) for b in (0, 1))
    made = probes(BY_NAME["T3"])
    assert made["SV-RES-001@1"].labels[:-1] == ("replaced by token 0", "replaced by token 1")
    assert made["SV-RES-002@0"].labels[:-1] == ("token 2 replaced by token 0", "token 2 replaced by token 1")
    assert made["SV-POS-001@1"].labels[:-1] == ("token 0", "token 1", "token 2")
    assert probes(BY_NAME["W637-ragged"])["SV-RUL-001"].labels[0] == "draft none, accepted 0, next 0"
    assert "p < q, ratio group 1 accepted" in probes(BY_NAME["softmax-32"])["SV-ACC-001@0"].labels


# --- what rounding decides, and what cannot happen -------------------------------------------------------------------


def one_row(draft: int, accepted: int, following: int) -> Trace:
    """Make a trace of one row of one drafted token."""
    one = np.array([1])
    return Trace(np.array([[draft]]), one, np.array([accepted]), np.array([following]), np.array([[0, 0]]))


@pytest.fixture
def tied() -> Case:
    """Make a case whose token 1 has p = q, with two residual tokens."""
    row = ["3/8", "1/8", "1/8", "3/8"]
    return Case.from_rows("tied", row, ["1/4", "1/8", "1/2", "1/8"], num_draft_tokens=1)


def counted(case: Case, trace: Trace) -> dict[str, IntArray]:
    """Count one trace with every probe of the token rule."""
    laws = CaseProbes(case, TAU, "token")
    return {probe.check: probe.count(laws.views(trace, np.random.default_rng(0))) for probe in laws.probes}


def test_a_rejection_at_a_tie_counts_nowhere(tied: Case) -> None:
    """Rounding may reject where p = q: no probe of the rule counts such a row, in any cell."""
    for following in (-1, 0, 1, 2, 3):
        counts = counted(tied, one_row(1, 0, following))
        assert {check for check, cells in counts.items() if cells.any()} == {"SV-TOK-001", "SV-JNT-001"}


def test_an_acceptance_at_a_tie_counts(tied: Case) -> None:
    """The accepted tie is counted as any other acceptance is."""
    counts = counted(tied, one_row(1, 1, 0))
    assert all(counts[check].sum() == 1 for check in ("SV-ACC-001", "SV-BON-001", "SV-LEN-001", "SV-RUL-001"))
    assert all(cells[-1] == 0 for cells in counts.values())


def test_a_replacement_by_a_tied_token_does_not_count_as_one(tied: Case) -> None:
    """A residual of rounding size may give the tied token: acceptance and length count the row, replacements do not."""
    counts = counted(tied, one_row(2, 0, 1))
    assert counts["SV-ACC-001"].sum() == counts["SV-LEN-001"].sum() == 1
    assert not any(counts[check].any() for check in ("SV-RES-001", "SV-RES-002", "SV-RUL-001"))


def test_what_cannot_happen_is_counted_in_the_last_cell() -> None:
    """A rejection with p > q, a replacement without residual and a missing bonus all land in the last cell."""
    case = BY_NAME["AB"]
    counts = counted(case, one_row(1, 0, 0))
    assert counts["SV-ACC-001"][-1] == counts["SV-RUL-001"][-1] == 1
    counts = counted(case, one_row(0, 1, -1))
    assert counts["SV-BON-001"][-1] == counts["SV-RUL-001"][-1] == 1
    counts = counted(BY_NAME["T3"], drawn(BY_NAME["T3"], 4000, 3))
    assert all(counts[check][-1] > 0 for check in ("SV-ACC-001", "SV-RES-001", "SV-RES-002", "SV-BON-001"))
