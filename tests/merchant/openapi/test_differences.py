"""The document against the specification, both ways: the differences are listed, and there are none."""

from faregate.merchant.openapi import describe

from .facts import Reader
from .transcription import decisions, specification


def facts() -> set[str]:
    return Reader(describe(), specification().schemas()).facts()


def listed(title: str, differences: set[str]) -> list[str]:
    """Printed, so that a failing run shows all of them."""
    print(f"{title}: {len(differences)}", *sorted(differences), sep="\n  ")
    return sorted(differences)


def test_the_document_says_all_that_the_specification_says() -> None:
    assert listed("In the specification, not in the document", specification().facts - facts()) == []


def test_the_document_says_all_that_was_decided() -> None:
    assert listed("Decided, not in the document", decisions().facts - facts()) == []


def test_the_document_says_nothing_else() -> None:
    known = specification().facts | decisions().facts
    assert listed("In the document, neither specified nor decided", facts() - known) == []


def test_nothing_is_decided_that_the_specification_says() -> None:
    assert listed("Decided although specified", decisions().facts & specification().facts) == []


def test_the_transcription_is_of_the_whole_specification() -> None:
    """Its eight endpoints, its 19 schemas: a transcription that lost its lines would agree with anything."""
    assert len(specification().schemas()) == 19
    assert (
        len({fact for fact in specification().facts if fact.endswith("security=OrganizationApiKeyAuth")}) == 8
    )
    assert len(specification().facts) > 400
