"""Commands about this host and this tool."""
