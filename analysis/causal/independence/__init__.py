"""Tests of conditional independence between discrete and continuous variables; a new test is one class."""
