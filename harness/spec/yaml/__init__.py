"""YAML with the position of every key and value, and advice on its errors."""

from unperturbed.harness.spec.yaml.positions import MAX_BYTES, Document, Place, YamlPath, decode, read_yaml

__all__ = ["MAX_BYTES", "Document", "Place", "YamlPath", "decode", "read_yaml"]
