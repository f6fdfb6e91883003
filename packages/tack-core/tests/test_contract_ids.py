"""Every rule of the language contract is named by a test, and no test names a rule that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
CONTRACT = TESTS.parents[2] / "docs" / "reference" / "language-contract.md"
DEFINITION = re.compile(r"^- \*\*([A-Z]+-\d+)\*\*", re.MULTILINE)


def defined(text: str) -> list[str]:
    """The ids that the contract defines, in order."""
    return DEFINITION.findall(text)


NOT_RULES = frozenset("UTF IEEE PEP NEP ISO BSD CP SHA".split())


def named(text: str) -> set[str]:
    """The ids that a text names; ``EVAL-1 to EVAL-9`` names only its ends."""
    found = re.findall(r"\b([A-Z]{2,})-(\d+)\b", text)
    return {f"{family}-{number}" for family, number in found if family not in NOT_RULES}


def test_text() -> dict[str, str]:
    """The text of each test module but this one, by name."""
    return {p.name: p.read_text(encoding="utf-8") for p in TESTS.rglob("*.py") if p.name != Path(__file__).name}


test_text.__test__ = False
IDS = defined(CONTRACT.read_text(encoding="utf-8"))
FAMILIES = {name.partition("-")[0] for name in IDS}


def test_ids_are_unique_and_numbered_from_one():
    assert len(IDS) == len(set(IDS)) > 100
    for family in FAMILIES:
        numbers = [int(name.partition("-")[2]) for name in IDS if name.startswith(family + "-")]
        assert numbers == list(range(1, len(numbers) + 1)), family


def test_every_rule_is_named_by_a_test():
    everything = set().union(*(named(text) for text in test_text().values()))
    assert [name for name in IDS if name not in everything] == []


def test_no_test_names_a_rule_that_does_not_exist():
    unknown = {(file, name) for file, text in test_text().items() for name in named(text) if name not in set(IDS)}
    assert unknown == set()


def test_the_check_notices_a_missing_and_an_unknown_rule():
    """The negative control."""
    contract = "- **INT-1** wraps.\n- **INT-2** converts; see INT-9.\n  INT-3 is only mentioned.\n"
    assert defined(contract) == ["INT-1", "INT-2"]
    found = named('"""INT-1, UTF-8, CAST-1 and INT-77: wraps"""')
    assert found == {"INT-1", "INT-77", "CAST-1"}
    assert [name for name in defined(contract) if name not in found] == ["INT-2"]
    assert found - set(defined(contract)) == {"INT-77", "CAST-1"}
