"""A search for a partition on several nodes: its coordinator, the judge over nodes, what a node executes, the page."""
