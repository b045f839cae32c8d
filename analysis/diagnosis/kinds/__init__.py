"""Kinds of anomaly: one module with one class each, found by themselves (see `diagnosis.kind`).

Kamdem Kengne et al., "Distance-Based Trace Diagnosis for Multimedia Applications: Help me TED!", section II-B, names
three: desynchronisation, player crash, slow streaming; lost events and slow phases are added here. The paper takes any
distance above 0 for an anomaly. Clean runs of real pipelines are not at distance 0 of each other; so a kind measures
the physical effect and compares it with the references' own noise.
"""
