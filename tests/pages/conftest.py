"""One synthetic campaign for all pages of campaigns."""

from __future__ import annotations

import pytest

from tests.analysis.report.synthetic import make_content
from unperturbed.analysis.report.campaign.content import ReportContent


@pytest.fixture(scope="session")
def content() -> ReportContent:
    return make_content()
