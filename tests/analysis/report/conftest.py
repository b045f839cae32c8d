"""One synthetic campaign and its page, made once."""

from __future__ import annotations

import pytest

from tests.analysis.report.synthetic import make_content
from unperturbed.analysis.report.campaign.content import ReportContent
from unperturbed.analysis.report.campaign.page import render


@pytest.fixture(scope="session")
def content() -> ReportContent:
    return make_content()


@pytest.fixture(scope="session")
def html(content: ReportContent) -> str:
    return render(content)
