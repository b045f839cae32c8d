"""One synthetic campaign and its page, made once."""

from __future__ import annotations

import pytest

from unperturbed.analysis.report.content import ReportContent
from unperturbed.analysis.report.page import render

from .synthetic import make_content


@pytest.fixture(scope="session")
def content() -> ReportContent:
    return make_content()


@pytest.fixture(scope="session")
def html(content: ReportContent) -> str:
    return render(content)
