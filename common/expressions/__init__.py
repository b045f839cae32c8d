"""Expression language of specs and tables: computes metrics from metrics and columns from columns, without `eval`.

The syntax is that of Python expressions. A name with characters other than letters, digits and `_` needs backquotes.
Only allowed syntax nodes are translated: `columns` translates all of them to polars; `metrics` translates arithmetic to
numpy, and also accepts quoted names. The two do not share a translation: polars divides by a number by multiplying by
the reciprocal, which differs in the last digit, and takes 1 ms for a trace of 200 intervals where numpy takes 0.03 ms.
"""


# A spec uses only `metrics`; `columns` needs polars and is imported on first use.
