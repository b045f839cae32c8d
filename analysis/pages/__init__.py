"""Shared parts of all pages: the frame, its parts, its figures, its words; `report.css`, `report.js`, plotly.js."""
