"""Campaigns on several nodes: the share of each node, and the state of campaigns, on nodes or on one host."""
