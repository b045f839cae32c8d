"""What every page shares: its frame, its parts, its figures, its words; `report.css`, `report.js`, plotly.js."""
