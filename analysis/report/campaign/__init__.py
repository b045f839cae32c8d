"""Report of a campaign: its content, sections, figures and page."""
