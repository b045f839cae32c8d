"""Shared parts of all HTML pages: document, charts and glossary, with `report.css`, `report.js` and plotly.js."""
