"""Tests of conditional independence on tables of discrete and continuous variables; a further one is one class."""
